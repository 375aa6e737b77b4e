"""`python -m scripts.read`: a text by any of its names."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from core import ids
from core.errors import FreshetError
from core.runtime.context import Context
from core.settings import Settings
from scripts import domain, domain_crawl, read
from tests import articles, commands
from tests.site import FILLER, Site
from tests.web import FakeWeb

pytestmark = pytest.mark.usefixtures("adopted")


async def told(capsys: pytest.CaptureFixture[str], name: str) -> dict[str, Any]:
    """What is known of a text."""
    capsys.readouterr()
    assert await read.read(name, markdown=False, as_json=True) == 0
    return json.loads(capsys.readouterr().out)


async def test_article_by_any_name(context: Context, web: FakeWeb, capsys: pytest.CaptureFixture[str]) -> None:
    """By uid, item id, its URL with trackers, the URL of an alias and of its redirect's target."""
    web.page("/a", articles.article("Lock gates reopen"))
    web.redirect("/short", "/a")
    await articles.add(context, web.url("/a"))
    await articles.run(context)
    await articles.add(context, web.url("/short"))
    await articles.run(context)
    uid = ids.article_uid(web.url("/a"))
    by_uid = await told(capsys, uid)
    names = [by_uid["id"], web.url("/a?utm_source=x#top"), web.url("/short"), ids.article_uid(web.url("/short"))]

    assert [(await told(capsys, name))["uid"] for name in names] == [uid] * 4
    assert (by_uid["kind"], by_uid["title"], by_uid["aliases"]) == ("article", "Lock gates reopen", [web.url("/short")])
    assert (by_uid["verified_by"], by_uid["categories"], by_uid["domains"]) == ("read", ["world"], [])
    assert by_uid["text"].startswith("The council voted on Tuesday")
    assert by_uid["checked_ts"] >= by_uid["fetched_ts"] > 0


async def test_article_for_people(context: Context, web: FakeWeb, settings: Settings) -> None:
    """A short head, an empty line, the text; of a duplicate, whose text it is."""
    for path in ("/a", "/b"):
        web.page(path, articles.article("Lock gates reopen"))
        await articles.add(context, web.url(path))
        await articles.run(context)
    done = await commands.run(settings, "scripts.read", web.url("/b"))
    head, _, text = done.stdout.partition("\n\n")
    lines = head.splitlines()

    assert (done.returncode, done.stderr) == (0, "")
    assert lines[:3] == ["Lock gates reopen", web.url("/b"), "  source    world · 127.0.0.1"]
    assert [line.split()[0] for line in lines[3:]] == ["fetched", "verified", "language", "duplicate", "id"]
    assert f"  duplicate of {web.url('/a')}" in lines
    assert text.startswith("The council voted on Tuesday")


async def test_pages_and_files(site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A page of a site, also by the URL of its alias; a file by its path, as Markdown too."""
    site.page("/", links=["/a", "/old"])
    site.page("/a")
    site.web.redirect("/old", "/a", status=301)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "weir.md").write_text(f"# Weir\n\n{FILLER}\n\n- one\n- two\n")
    for what, name in ((site.url(), "docs"), (str(tmp_path / "notes"), "notes")):
        await domain.add(what, name)
        await domain_crawl.crawl(name)
    page, file = await told(capsys, site.url("/old")), await told(capsys, str(tmp_path / "notes" / "weir.md"))
    await read.read(file["id"], markdown=True, as_json=False)
    shown = capsys.readouterr().out

    assert (page["kind"], page["url"], page["domains"], page["uid"]) == ("page", site.url("/a"), ["docs"], "")
    assert (file["kind"], file["title"], file["domains"]) == ("file", "Weir", ["notes"])
    assert file["updated_ts"] > 0
    assert f"\n\n# Weir\n\n{FILLER}\n\n- one\n- two\n" in shown


@pytest.mark.parametrize("name", ["0123456789abcdef", "https://e.org/nothing", "nothing.md", "", "a b"])
async def test_unknown(name: str) -> None:
    """A sentence that points to the command that tells why."""
    with pytest.raises(FreshetError, match=r"There is no text of .*\. `freshet why .*` tells why\."):
        await read.read(name, markdown=False, as_json=False)


# ── the pager ──


def test_long_texts_go_through_pager(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Only on a terminal, only what is longer than the screen, without escapes of others; also if there is no pager."""
    long = "\x1b[31mred\n" + "line\n" * 30
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")

    def shown(text: str, with_pager: str) -> str:
        monkeypatch.setenv("PAGER", with_pager)
        read.show(text)
        return capfd.readouterr().out

    assert shown(long, "sed s/line/LINE/") == "\\u001b[31mred\n" + "LINE\n" * 30
    assert shown("line", "sed s/line/LINE/") == "line\n"
    assert shown(long, "/no/such/pager").count("line\n") == 30
    assert shown(long, "").count("line\n") == 30


def test_no_pager_into_a_pipe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A program that reads gets the text as it is."""
    monkeypatch.setenv("PAGER", "false")
    read.show("line\n" * 100)

    assert capsys.readouterr().out == "line\n" * 100 + "\n"
