"""The documentation says what the code says: keys, settings, files, links."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.keys import DECLARED, Keys
from core.secret_text import SecretStr
from core.settings import ROOT, Settings
from scripts.command_names import COMMANDS

DOCS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TYPES = ("SET", "ZSET", "HASH", "LIST", "STRING", "STREAM", "any")


def rows(page: str) -> Iterator[list[str]]:
    """The cells of every table row of a page in docs/, without headings."""
    for line in (ROOT / "docs" / page).read_text().splitlines():
        if line.startswith("| `"):
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


# ── keys ──


def test_every_key_is_documented() -> None:
    """docs/keys.md has one row for each key that core/keys.py builds, with the same type, and no other."""
    documented = {
        re.sub(r"<[^>]*>", "<>", cells[0].strip("`")): cells[1] for cells in rows("keys.md") if cells[0] != "`rq:*`"
    }
    built = {"<>".join(one.parts(Keys())): one.type for one in DECLARED}

    assert len(built) > 50
    assert documented == built


# ── settings ──


def shown_default(name: str) -> str:
    """A default as docs/settings.md writes it."""
    default = Settings.defaults()[name]
    match default:
        case None:
            return "unset"
        case SecretStr() | tuple() if not default:
            return "empty"
        case tuple():
            return ",".join(default)
        case bool():
            return str(default).lower()
        case int() | float():
            return f"{default:,.0f}"
        case _:
            return str(default) or "empty"


DERIVED = {"queue_redis_url": "REDIS_URL", "fetch_host_parallel": "2"}
"""Unset by default, and then taken from other settings."""


def plain(default: str) -> str:
    """Without backticks, escapes, thousands separators and the same value in another unit."""
    return re.sub(r"(?<=\d),(?=\d{3}\b)", "", re.sub(r"^([\d,]+) \(.*\)$", r"\1", re.sub(r"[`\\]", "", default)))


def test_every_setting_is_documented() -> None:
    """docs/settings.md has one row for each setting, with its default, and no other."""
    documented = {cells[0].strip("`").lower(): plain(cells[1]) for cells in rows("settings.md")}

    assert documented == {name: plain(DERIVED.get(name, shown_default(name))) for name in Settings.names()}


# ── links, files, commands ──


def anchors(page: Path) -> set[str]:
    """The anchors that headings of a page have on GitHub."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file that exists, and an anchor that it has."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    for target in re.findall(r"\]\(([^)#:]*(?:#[^)]*)?)\)", text):
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page

        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


def test_comments_cite_sections_that_exist() -> None:
    """`docs/architecture.md#anchor` in code and tests names a heading of that page."""
    cited = {
        (path.name, anchor)
        for folder in ("core", "workers", "scripts", "tests", "bench")
        for path in (ROOT / folder).rglob("*.py")
        for anchor in re.findall(r"architecture\.md#([\w-]+)", path.read_text())
        if path != Path(__file__)
    }
    existing = anchors(ROOT / "docs" / "architecture.md")

    assert {(name, anchor) for name, anchor in cited if anchor not in existing} == set()


def test_readme_is_short_and_names_commands_that_exist() -> None:
    """About 8 kB, and every command can be started."""
    readme = (ROOT / "README.md").read_text()
    modules = set(re.findall(r"\b((?:scripts|workers)\.[a-z_]+)\b", readme))
    named = set(re.findall(r"\bfreshet ([a-z-]+)", readme))

    assert len(readme.encode()) < 8_700
    assert {module for module in modules if importlib.util.find_spec(module) is None} == set()
    assert len(modules) >= 4
    assert named - set(COMMANDS) == set()
    assert len(named) >= 10
    rooms = {path.name for path in (ROOT / "core").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert set(" ".join(re.findall(r"`([a-z ]{10,})`", readme.partition("**The code**")[2])).split()) == rooms


def test_changes_name_files_that_exist() -> None:
    """Every path in docs/changing-things.md, and in the tree of the README, is there."""
    page = (ROOT / "docs" / "changing-things.md").read_text()
    paths = re.findall(r"`((?:core|workers|scripts|tests|docs)/[\w./-]+)`", page)

    assert len(set(paths)) >= 25
    assert {path for path in paths if not (ROOT / path).exists()} == set()


def test_modules_that_are_named_exist() -> None:
    """Every Python or Lua file that a page names, by whatever part of its path, is in the checkout."""
    tops = ("core", "workers", "scripts", "tests", "bench", "sample_sharepoint")
    files = [f"/{path.relative_to(ROOT)}" for top in tops for path in (ROOT / top).rglob("*.*")]
    named = {(page.name, name) for page in DOCS for name in re.findall(r"`([\w./-]+\.(?:py|lua))`", page.read_text())}

    assert len(named) >= 100
    assert {(page, name) for page, name in named if not any(file.endswith(f"/{name}") for file in files)} == set()


def test_rooms_name_files_that_exist() -> None:
    """The table of rooms in docs/architecture.md has every room, and files that are there."""
    table = dict(
        re.findall(r"^\| `((?:core/)?\w+/)` \|.*\| (.*) \|$", (ROOT / "docs" / "architecture.md").read_text(), re.M)
    )
    rooms = {f"core/{path.name}/" for path in (ROOT / "core").iterdir() if path.is_dir() and path.name != "__pycache__"}
    files = [ROOT / room / name for room, cell in table.items() for name in re.findall(r"`([\w/.]+)`", cell)]

    assert set(table) == rooms | {"workers/", "scripts/"}
    assert [path for path in files if not path.exists()] == []


def test_nothing_cites_documents_that_are_not_here() -> None:
    """Reasons stand in the code or in docs/, not in numbered notes that a reader cannot open."""
    citation = re.compile(r"\btraps? [TR]\d|\bspec(?:ification)? 00\d|\bdesign(?:\.md)? §|\(([TR]\d+(, )?)+\)|\bbar §")
    files = [*DOCS, ROOT / "CHANGELOG.md", ROOT / "pyproject.toml", ROOT / ".env.example"]
    files += [path for name in ("core", "workers", "scripts", "tests", "bench") for path in (ROOT / name).rglob("*.py")]

    assert [path.name for path in files if citation.search(path.read_text()) and path != Path(__file__)] == []
