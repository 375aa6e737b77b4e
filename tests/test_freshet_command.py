"""`freshet NAME …`: every command under one name, from any folder, with or without an activated environment."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Coroutine
from pathlib import Path

import pytest

from core.settings import Settings
from core.store.connect import Client
from scripts import command_line, command_names, freshet
from scripts.command_names import COMMANDS, TYPED, module_of
from tests import commands

ROOT = Path(__file__).parents[1]
PARTS_OF_UP = {"launch", "guard", "keeper"}
NAMES = sorted(set(COMMANDS) - {"redis-cli"})  # which hands everything on to redis-cli


def call(monkeypatch: pytest.MonkeyPatch, *words: str, typed: str = "freshet") -> int:
    """The command in this process."""
    monkeypatch.setattr(sys, "argv", ["freshet.py", *words])
    monkeypatch.setenv(TYPED, typed)
    try:
        return freshet.main()
    except SystemExit as end:
        return int(end.code or 0)


def start(program: Path, *words: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """`./freshet` by itself, in a process, with nothing of this environment but where programs are."""
    return subprocess.run(
        [program, *words], cwd=cwd, env={"PATH": "/usr/bin:/bin", **environment}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip


def test_every_script_is_a_command() -> None:
    """Every file in scripts/ that can be run, apart from what `up` is made of, is in the table, and nothing else."""
    runnable = {path.stem for path in (ROOT / "scripts").glob("*.py") if '__name__ == "__main__"' in path.read_text()}

    assert {module_of(name) for name in COMMANDS} == {
        f"scripts.{stem}" for stem in runnable - PARTS_OF_UP - {"freshet"}
    }


def test_every_command_is_documented() -> None:
    """docs/commands.md has a row for each, and names no other."""
    page = (ROOT / "docs" / "commands.md").read_text()

    assert set(re.findall(r"^\| `freshet ([a-z-]+)", page, re.M)) == set(COMMANDS)
    assert set(re.findall(r"(?<!\./)\bfreshet ([a-z-]+)", page)) <= set(COMMANDS)


def test_help_lists_every_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One line for each, and examples; the same without a name, as wrong use."""
    codes = [call(monkeypatch, *words) for words in (["--help"], ["-h"], ["help"], [])]
    told = capsys.readouterr().out

    assert codes == [0, 0, 0, 2]
    assert told == told[: len(told) // 4] * 4
    assert [name for name in COMMANDS if not re.search(rf"^  {name} +\w", told, re.M)] == []
    assert "\n  freshet articles --category world --since 2h\n" in told
    assert "`freshet NAME --help` explains a command" in told


def test_module_names_are_understood(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`freshet sample_site` is `freshet sample-site`."""
    assert call(monkeypatch, "sample_site", "--help") == 0
    assert capsys.readouterr().out.startswith("usage: freshet sample-site ")


def test_help_is_quick() -> None:
    """The list of commands is printed without a module of core but those that every program begins with."""
    code = "import sys; from scripts import freshet; sys.argv = ['f', '--help']; freshet.main(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {
        name for name in done.stdout.splitlines()[-1].split() if name.split(".")[0] in ("core", "redis", "asyncio")
    }

    assert loaded == {"core", "core.runtime", "core.runtime.garbage", "core.runtime.python_version"}


SOURCE_FILES = {f"core.sources.io.{name}" for name in ("web", "folder", "github", "sharepoint")}
NEVER = {
    "aiohttp",
    "dotenv",
    "feedparser",
    "lxml",
    "pydantic",
    "pydantic_settings",
    "rq",
    "tqdm",
    "trafilatura",
    "tantivy",
    "numpy",
}
NEVER |= {"onnxruntime", "prometheus_client", "core.runtime.parse_pool", "core.search.io.searcher"}
NEVER |= {"core.store.field_types", "core.sources.domain_schema"}

SEARCHING = {"core.search.io.searcher", "numpy", "tantivy", "tqdm"}
"""What only a search needs; the last one shows how far the first copy of the index is."""


@pytest.mark.parametrize(
    ("words", "unwanted"),
    [
        (["status"], NEVER | SOURCE_FILES),
        (["why", "https://example.org/nobody-knows-it"], NEVER | SOURCE_FILES),
        (["search", "flood wall", "--words"], NEVER - SEARCHING | SOURCE_FILES),
        (["search", "flood wall"], NEVER - SEARCHING | SOURCE_FILES),
        (["status", "--help"], NEVER | SOURCE_FILES | {"redis", "asyncio", "core.settings"}),
        (["why", "--help"], NEVER | SOURCE_FILES | {"redis", "asyncio", "core.settings"}),
        (["search", "--help"], NEVER | SOURCE_FILES | {"redis", "asyncio", "core.settings"}),
    ],
    ids=[
        "status",
        "why",
        "search by words",
        "search where nothing is embedded",
        "help of status",
        "help of why",
        "help of search",
    ],
)
def test_looking_loads_only_what_looking_needs(
    words: list[str], unwanted: set[str], settings: Settings, redis: Client, tmp_path: Path
) -> None:
    """At work, `status`, `why` and `search` load no fetcher, queue, parser or model; their help not even a client."""
    code = "import sys; from scripts import freshet\ntry: freshet.main()\nfinally: print(*sys.modules, file=sys.stderr)"
    assert settings.redis_url is not None
    environment = {
        "PATH": os.environ["PATH"],
        "REDIS_URL": settings.redis_url.get_secret_value(),
        "KEY_PREFIX": settings.key_prefix,
        "PERSISTENT_STORAGE_PATH": str(tmp_path),
    }
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    loaded = set(done.stderr.splitlines()[-1].split())

    assert done.stdout
    assert unwanted & loaded == set()


@pytest.mark.parametrize("name", NAMES)
def test_help_of_a_command(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It names the command as it was typed, with an example; otherwise it is the help of `python -m scripts.NAME`."""
    assert call(monkeypatch, name, "--help", typed="./freshet") == 0
    told = capsys.readouterr().out
    monkeypatch.delenv(TYPED)
    with pytest.raises(SystemExit):
        importlib.import_module(module_of(name)).main()
    told_as_module = capsys.readouterr().out

    assert told.startswith(f"usage: ./freshet {name} ")
    assert re.search(rf"^ *\./freshet {name}", told, re.M)
    assert told.endswith(f"\nThe same as python -m {module_of(name)}.\n")
    assert "python -m" not in told.removesuffix(f"The same as python -m {module_of(name)}.\n")
    assert "freshet " not in told_as_module
    told = told.replace(f"The same as python -m {module_of(name)}.", "")
    told = re.sub(r"\./freshet ([a-z-]+)", lambda found: f"python -m {module_of(found[1])}", told)
    assert told.split() == told_as_module.split()


def examples(name: str) -> list[str]:
    """The commands of a docstring, with the first of several words to choose from, and optional words as given."""
    doc = importlib.import_module(module_of(name)).__doc__ or ""
    lines = re.findall(rf"^ *python -m {module_of(name)}\b(?: (\S.*?))?(?:  .*)?$", doc, re.M)
    return [re.sub(r"(^| )[|<>] .*|(?<=\w)\|\S*|[\[\]()]", "", line) for line in lines]


@pytest.mark.parametrize("name", NAMES)
def test_examples_can_be_typed(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The command line of every example is understood."""
    understood: list[str] = []

    def run(work: Coroutine[object, object, int]) -> int:
        work.close()
        understood.append(line)
        return 0

    monkeypatch.setattr(command_line, "run", run)
    for line in examples(name):
        call(monkeypatch, name, *shlex.split(line))

    assert understood == examples(name), capsys.readouterr().err
    assert understood


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["artcles"], "There is no command 'artcles'. Did you mean `./freshet articles`? `./freshet --help` lists"),
        (["xyzzy"], "There is no command 'xyzzy'. `./freshet --help` lists them all."),
        (["--json", "status"], "There is no command '--json'. `./freshet --help` lists them all."),
        (["up"], "up is a script of the checkout: ./scripts/up"),
        (["help", "domian"], "There is no command 'domian'. Did you mean `./freshet domain`?"),
    ],
)  # fmt: skip
def test_unknown_commands(
    words: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sentence with the nearest name, exit code 2."""
    assert call(monkeypatch, *words, typed="./freshet") == 2
    assert capsys.readouterr().err.startswith(sentence)


@pytest.mark.parametrize(
    ("typed", "text", "expected"),
    [
        ("freshet", "`python -m scripts.feeds list` tells", "`freshet feeds list` tells"),
        ("./freshet", "`freshet redis-cli PING`", "`./freshet redis-cli PING`"),
        ("", "`freshet redis-cli PING`", "`python -m scripts.redis_cli PING`"),
        ("", "python -m scripts.feeds, freshet feeds.", "python -m scripts.feeds, python -m scripts.feeds."),
        ("freshet", "EMBEDDER=none python -m scripts.reindex --all", "EMBEDDER=none freshet reindex --all"),
        ("./freshet", "run ./freshet status or freshet statuses", "run ./freshet status or freshet statuses"),
        ("./freshet", "python -m scripts.feeds_old, scripts.feeds.py", "python -m scripts.feeds_old, scripts.feeds.py"),
    ],
)
def test_commands_in_messages(typed: str, text: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message names commands the way this person types them."""
    monkeypatch.setenv(TYPED, typed)

    assert command_names.as_typed(text) == expected


async def test_errors_name_the_command_as_typed(settings: Settings, redis: Client) -> None:
    """Hints of core, too; the same sentence and exit code as by `python -m`."""
    words = ("reindex", "--category", "none")
    done = await commands.run(settings, "scripts.freshet", *words, FRESHET_COMMAND="./freshet")
    as_module = await commands.run(settings, "scripts.reindex", *words[1:])
    hint = "There is no category none. `{} status` shows what there is."

    assert (done.returncode, done.stdout, done.stderr.strip()) == (2, "", hint.format("./freshet"))
    assert (as_module.returncode, as_module.stderr) == (2, done.stderr.replace("./freshet ", "python -m scripts."))


async def test_the_same_output(settings: Settings, redis: Client) -> None:
    """`freshet feeds list` prints what `python -m scripts.feeds list` prints."""
    await redis.sadd("rss:categories", "world")
    await redis.sadd("rss:feeds:world", "https://e.org/feed")
    done = await commands.run(settings, "scripts.freshet", "feeds", "list")
    as_module = await commands.run(settings, "scripts.feeds", "list")

    assert "https://e.org/feed" in done.stdout
    assert (done.returncode, done.stdout, done.stderr) == (0, as_module.stdout, as_module.stderr)


# ── as a program ──


def test_from_another_folder_and_through_links(settings: Settings, redis: Client, tmp_path: Path) -> None:
    """It finds its checkout by itself; what happens to be called `scripts` or `core` there is not run."""
    for name in ("scripts", "core"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('not ours')")
    (tmp_path / "second").symlink_to(ROOT / "freshet")
    link = tmp_path / "bin" / "freshet"
    link.parent.mkdir()
    link.symlink_to("../second")
    done = start(link, "status", "--json", cwd=tmp_path, **commands.environment(settings))
    by_path = start(link, "--help", cwd=tmp_path, PATH=f"{link.parent}:/usr/bin:/bin")

    assert (done.returncode, done.stderr) == (0, "")
    assert '"articles"' in done.stdout
    assert by_path.stdout.startswith("usage: freshet NAME ")


def test_without_a_virtual_environment(tmp_path: Path) -> None:
    """One sentence that says what to run, exit code 2."""
    program = tmp_path / "freshet"
    program.write_bytes((ROOT / "freshet").read_bytes())
    program.chmod(0o755)
    done = start(program, "status", cwd=Path("/"))

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"Freshet is not set up. Run {tmp_path}/scripts/setup first.\n"


def test_nobody_reads_the_rest() -> None:
    """`freshet --help | head -1` is quiet."""
    line = f"{shlex.quote(str(ROOT / 'freshet'))} --help | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)

    assert (done.stdout, done.stderr) == ("0\n", "")
