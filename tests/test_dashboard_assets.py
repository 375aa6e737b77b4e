"""The files that pages load: unchanged copies of what others released, small, and nothing from outside."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from workers.web.dashboard.rendering import STATIC, TEMPLATES

OWN = {"api.css", "dashboard.css", "dashboard.js", "logo.svg", "LICENSES.md"}
ROW = re.compile(r"^\| `([^`]+)` \| [^|]+ \| ([^|]+) \| ([^|]+) \| `([0-9a-f]{64})` \|$", re.M)
MOST_PAGE_BYTES = 300_000


def test_files_of_others_are_unchanged_and_listed() -> None:
    """Every file that is not ours has a row with version, licence and hash, and has that hash."""
    rows = {name: digest for name, _, _, digest in ROW.findall((STATIC / "LICENSES.md").read_text())}
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in STATIC.iterdir()}

    assert {name: digest for name, digest in found.items() if name not in OWN} == rows


def test_a_page_loads_little() -> None:
    """All files together, uncompressed, leave room for the HTML within 300 kB."""
    sizes = {path.name: path.stat().st_size for path in STATIC.iterdir() if path.suffix in (".js", ".css", ".svg")}

    assert sum(sizes.values()) < MOST_PAGE_BYTES - 50_000, sizes


@pytest.mark.parametrize("path", sorted(TEMPLATES.rglob("*.html")), ids=lambda path: path.name)
def test_templates_escape_and_load_nothing(path: Path) -> None:
    """No template switches escaping off, has inline script or style, or names another server."""
    text = path.read_text()

    assert not re.findall(r"\|\s*safe\b|autoescape|Markup", text)
    assert not re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|javascript:", text)
    assert not re.findall(r"(?:src|href|action)=[\"'](?:https?:)?//", text)
    # A URL from the store goes through `safe_url`, everything else in a link is a path of ours.
    assert not re.findall(
        r"(?:href|src)=\"\{\{(?!\s*(?:static\(|url\|safe_url))(?![^}]*(?:path|href|_url|older|newer))", text
    )


def test_every_form_carries_the_token() -> None:
    """A form that posts has the hidden fields, or it would be refused."""
    pages = [path.read_text() for path in TEMPLATES.rglob("*.html")]
    forms = [form for page in pages for form in re.findall(r"<form method=\"post\".*?</form>", page, re.S)]

    assert len(forms) > 10
    assert [form for form in forms if "form_fields()" not in form and 'name="csrf"' not in form] == []
