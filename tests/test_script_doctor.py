"""`python -m scripts.doctor`: what is wrong is told, healed with --fix, and then there is nothing left."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from core.indexes.opening import open_searcher
from core.indexes.protocols import Page
from core.models import Chunk
from core.settings import Settings
from scripts import doctor
from tests import commands
from tests.library import Library, open_library
from tests.test_reconciling import PLANTS, Plant

CLEAN = {"missing": 0, "extra": 0}


@pytest.fixture
async def library(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Library]:
    pages = {"/a": "The weir.", "/b": "The sluice.", "/c": "The lock.", "/empty": "x"}
    async with open_library(settings, pages) as opened:
        commands.adopt(
            monkeypatch, opened.settings, EMBEDDER="openai", EMBED_API_URL=opened.server.url, EMBED_MODEL="first"
        )
        opened.site.web.page("/empty", "<html lang=en><title>Empty</title><body></body></html>")
        await opened.crawl()
        await opened.embed()
        opened.site.page("/b", "The sluice as it is now.")
        opened.site.remove("/c", 410)
        await opened.crawl()
        yield opened


async def run(
    capsys: pytest.CaptureFixture[str], *, fix: bool = False
) -> tuple[int, dict[str, object], dict[str, int]]:
    """Exit code, findings, replica."""
    capsys.readouterr()
    code = await doctor.doctor(fix=fix, as_json=True)
    told = json.loads(capsys.readouterr().out)
    return code, told["findings"], {name: told["replica"][name] for name in CLEAN}


async def test_clean_store_is_clean(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    """No false alarm: not with pages that wait, gone ones or empty ones; also when all is embedded."""
    assert await run(capsys) == (0, {}, CLEAN)
    await library.embed()
    assert await run(capsys) == (0, {}, CLEAN)
    capsys.readouterr()
    assert await doctor.doctor(fix=False, as_json=False) == 0
    assert "Registry, texts and chunks agree." in capsys.readouterr().out


@pytest.mark.parametrize("plant", [PLANTS[0][0], *(plant for plant, _, _ in PLANTS[5:])], ids=lambda one: one.__name__)
async def test_what_is_wrong_is_healed(library: Library, capsys: pytest.CaptureFixture[str], plant: Plant) -> None:
    """Told with exit code 1, healed with --fix, clean at the second run."""
    wrong = next(wrong for other, _, wrong in PLANTS if other is plant)
    await plant(library)

    code, findings, _ = await run(capsys)
    assert (code, findings) == (1, {str(wrong): 1})
    code, findings, _ = await run(capsys, fix=True)
    assert (code, findings) == (0, {str(wrong): 1})
    assert await run(capsys) == (0, {}, CLEAN)


async def test_replica_with_too_much_and_too_little(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    """A page that nobody knows, one that is missing, one with other chunks: told, healed, clean."""
    async with open_searcher(library.settings, library.desk.client, library.desk.keys) as searcher:
        await searcher.compare()
        replica = searcher._replica
        extra = Page("url_nobody", "v", url="https://example.org/")
        await replica.upsert(extra, [Chunk("c_extra", "Nobody knows this page.")], {})
        await replica.delete([library.id("/a")])
        page = (await searcher._pages.read([library.id("/")]))[library.id("/")]
        assert page
        await replica.upsert(page.page, [Chunk("c_other", "Not what the page says.")], {})
        await replica.commit(replica.mark)

    assert await run(capsys) == (1, {}, {"missing": 2, "extra": 1})
    assert await run(capsys, fix=True) == (0, {}, {"missing": 2, "extra": 1})
    assert await run(capsys) == (0, {}, CLEAN)
    assert await library.urls("weir", lexical_weight=1.0) == ["/a"]
