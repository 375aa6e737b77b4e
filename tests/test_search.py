"""Questions and answers over a crawled site and stored articles: what is found, in which order, and what never is."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any
from unittest import mock

import pytest

from core.feeds.io.link_store import Ttls
from core.registry.io.periodic_cleanup import Pruner
from core.registry.record import ARTICLES_SOURCE
from core.search.io import multilingual_embedder, replica_follower
from core.search.io.replica_opener import replica_folder
from core.search.io.replica_state import try_lock
from core.search.io.searcher import open_searcher
from core.search.models import Filters, Query
from core.search.ranking import FUSION_DEPTH, LEXICAL_WEIGHT
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.store import connect
from tests.articles import ArticlePage
from tests.crawled_site import SID, add_site
from tests.search_site import Library, open_library
from tests.site import html

WORDS = {
    "Arabic": ("ar", "تقيس المحطة ارتفاع النهر كل عشر دقائق وترسله إلى المكتب في الوادي.", "ارتفاع النهر"),
    "Hebrew": ("he", "התחנה מודדת את גובה הנהר כל עשר דקות ושולחת אותו למשרד בעמק.", "גובה הנהר"),
    "Japanese": ("ja", "観測所は十分ごとに川の水位を測り、谷の事務所に送ります。", "川の水位"),
    "Chinese": ("zh", "测站每十分钟测量一次河流的水位，并将其发送到山谷的办公室。", "河流的水位"),
    "Korean": ("ko", "관측소는 십 분마다 강의 수위를 재어 골짜기의 사무실로 보냅니다.", "강의 수위"),
    "emoji": ("en", "The gauge 🌊🚣‍♀️ is marked with a 🦦 in every report of the station.", "gauge 🦦 marked"),
    "combining": ("fr", "L'e\u0301cluse du ge\u0301ne\u0301ral fut re\u0301pare\u0301e en hiver.", "écluse du général"),
}


def filters(**more: Any) -> Filters:
    return Filters(**more)


# ── every text ──


async def test_every_script_goes_the_whole_way(settings: Settings) -> None:
    """Crawled, cut, embedded and found by its own words, whatever the script; each page is the first for its query."""
    async with open_library(settings, {f"/{name}": f"Page {name}." for name in WORDS}) as library:
        for name, (language, text, _) in WORDS.items():
            body = f"<html lang={language}><head><title>{name}</title></head><body><main><p>{text}</p></main></body>"
            library.site.web.page(f"/{name}", body + "</html>")
        await library.crawl()
        counts = await library.embed()
        found = {name: await library.urls(query, lexical_weight=1.0) for name, (_, _, query) in WORDS.items()}

        assert counts["indexed"] == 1 + len(WORDS)
        assert {name: paths[:1] for name, paths in found.items()} == {name: [f"/{name}"] for name in WORDS}
        assert await library.index_errors() == []


async def test_endless_word_and_empty_text(settings: Settings) -> None:
    """A word of a megabyte is cut, embedded and in nobody's way; a page without text has no chunks and no alarm."""
    async with open_library(settings, {"/long": "x", "/empty": "x", "/b": "A page about sluices."}) as library:
        library.site.web.page(
            "/long", f"<html lang=en><title>Long</title><body><p>{'Donau' * 200_000}</p></body></html>"
        )
        library.site.web.page("/empty", "<html lang=en><title></title><body><main> </main></body></html>")
        await library.crawl()
        counts = await library.embed()

        assert counts["indexed"] + await library.context.client.scard(library.context.keys.status("OutOfScope")) >= 3
        assert await library.urls("sluices", lexical_weight=1.0) == ["/b"]
        assert await library.waiting() == []
        assert await library.index_errors() == []
        async with open_searcher(library.settings, library.context.client, library.context.keys) as searcher:
            told = await searcher.follower.compare()
        assert (told["missing"], told["extra"]) == (0, 0)


async def test_odd_questions_have_answers(settings: Settings) -> None:
    """No question is an error: nothing, blanks, marks, quotes without an end, a thousand words, another script."""
    async with open_library(settings, {"/a": "About weirs."}) as library:
        await library.embed()
        async with open_searcher(library.settings, library.context.client, library.context.keys) as searcher:
            for text in (
                "",
                "   ",
                '"',
                '"weirs',
                "AND OR NOT",
                "+-*/(){}[]^~:\\",
                "weir " * 1_000,
                "水",
                "\0",
                "a" * 50_000,
            ):
                found = await searcher.search(Query(text), time.time())

                assert {one.page.url for one in found.results} <= {library.site.url("/"), library.site.url("/a")}
                assert len(found.results) <= found.total <= 2


# ── filters, pages, places ──


@pytest.fixture
async def library(settings: Settings) -> AsyncIterator[Library]:
    """Twelve pages about gauges, embedded."""
    async with open_library(settings, {f"/{n:02}": f"Gauge number {n} of the valley." for n in range(12)}) as opened:
        await opened.embed()
        yield opened


async def test_filters_limit_the_answer(library: Library) -> None:
    """Domain, host, language, type and date each let through what is theirs and nothing else."""
    now = time.time()
    passing = [
        filters(domains=("docs",)),
        filters(hosts=("127.0.0.1",)),
        filters(languages=("en",)),
        filters(types=("url",)),
        filters(since_ts=now - 3_600, until_ts=now + 3_600),
        filters(domains=("other", "docs"), languages=("de", "en")),
    ]
    stopping = [
        filters(domains=("other",)),
        filters(hosts=("example.org",)),
        filters(languages=("de",)),
        filters(types=("file",)),
        filters(since_ts=now + 3_600),
        filters(until_ts=now - 3_600),
        filters(categories=("world",)),
        filters(domains=("docs",), types=("file",)),
    ]

    assert [len(await library.urls("gauge", filters=one)) for one in passing] == [10] * len(passing)
    assert [await library.urls("gauge", filters=one) for one in stopping] == [[]] * len(stopping)


async def test_pages_follow_each_other(library: Library) -> None:
    """Every page is on exactly one page of the answer, the order is that of one long answer, and the end is empty."""
    whole = await library.urls("gauge number valley", per_page=100)
    parts = [await library.urls("gauge number valley", page=number, per_page=5) for number in (1, 2, 3, 4)]

    assert sorted(set(whole) - {"/"}) == [f"/{n:02}" for n in range(12)]
    assert [path for part in parts for path in part] == whole
    assert parts[-1] == []


async def test_explanation_adds_up(library: Library) -> None:
    """A passage says what words and meaning gave; both are between 0 and 1, and the score is made of them."""
    found = await library.ask("gauge number 7")
    for one in (passage for result in found.results for passage in result.passages):
        assert 0 <= one.lexical <= 1
        assert 0 <= one.semantic <= 1
        made = LEXICAL_WEIGHT * one.lexical + (1 - LEXICAL_WEIGHT) * one.semantic
        assert one.score == pytest.approx(made, abs=1e-6)
    assert found.results[0].passages[0].highlights


async def test_what_the_index_found_is_marked(library: Library) -> None:
    """A word with another ending is found, and marked where it stands; the small words beside it are not."""
    best = (await library.ask("which are the numbers of the gauges")).results[0].passages[0]

    assert {best.snippet[first:last].lower() for first, last in best.highlights} == {"gauge", "number"}


async def test_fresh_pages_come_first_if_asked(settings: Settings) -> None:
    """Of two pages with the same words the newer one; without the wish their age does not matter."""
    async with open_library(settings, {"/new": "x", "/old": "x"}) as library:
        for path, date in (("/new", "2026-11-01"), ("/old", "2011-11-01")):
            head = f'<meta property="article:published_time" content="{date}T10:00:00Z">'
            library.site.page(path, f"The sluice of {path[1:]} was opened.", head=head)
        await library.crawl()
        await library.embed()
        plain = await library.ask("sluice", lexical_weight=1.0)
        fresh = await library.ask("sluice", lexical_weight=1.0, freshness=1.0)
        dated = await library.urls("sluice", filters=filters(since_ts=1_700_000_000.0, until_ts=1_900_000_000.0))

        assert fresh.results[0].page.url.endswith("/new")
        assert fresh.results[0].score > plain.results[0].score
        assert "/new" in dated
        assert "/old" not in dated


async def test_images_hang_on_their_page(settings: Settings) -> None:
    """Only if asked for, with what they show."""
    async with open_library(settings, {"/a": "x"}) as library:
        picture = '<img src="/lock.jpg" alt="The lock at dawn" width=800 height=600>'
        library.site.web.page("/a", html("Lock", f"The lock was painted. {picture}"))
        library.site.web.page("/lock.jpg", "x")
        await library.crawl()
        await library.embed()
        with_images = await library.ask("lock painted", nest_images=True)
        without = await library.ask("lock painted")

        assert [image["alt"] for image in with_images.results[0].images] == ["The lock at dawn"]
        assert with_images.results[0].images[0]["parentPageId"] == library.id("/a")
        assert without.results[0].images == ()


# ── never what is not ──


@asynccontextmanager
async def behind(library: Library) -> AsyncIterator[None]:
    """Somebody else holds the replica's lock and does not write: it stays as it is."""
    lock = try_lock(replica_folder(library.settings) / "writer.lock")
    assert lock is not None
    try:
        with mock.patch.object(replica_follower, "MOST_WAITS", 2):
            yield
    finally:
        os.close(lock)


async def test_replica_behind_shows_nothing_that_is_not(settings: Settings) -> None:
    """Gone, hidden and superseded pages are not shown, from the moment of the commit, though the replica has them all;
    what did not change still is."""
    pages = {"/gone": "The weir.", "/missing": "The weir too.", "/changed": "The weir as it was.", "/same": "A weir."}
    async with open_library(settings, pages) as library:
        await library.embed()
        before = set(await library.urls("weir", lexical_weight=1.0))
        async with behind(library):
            library.site.remove("/gone", 410)
            library.site.remove("/missing", 404)
            library.site.page("/changed", "The lock instead.")
            await library.crawl()
            waiting = set(await library.urls("weir", lexical_weight=1.0))
            await library.embed()
            after = set(await library.urls("weir", lexical_weight=1.0))
        caught_up = set(await library.urls("lock", lexical_weight=1.0))

        assert before == set(pages)
        assert waiting == after == {"/same"}
        assert "/changed" in caught_up


async def test_long_lived_searcher_hears_of_a_swap_in_between(settings: Settings) -> None:
    """A page that is swapped after the replica was asked is looked for again: it is never missing."""
    async with open_library(settings, {"/a": "The weir of spring."}) as library:
        await library.embed()
        async with open_searcher(library.settings, library.context.client, library.context.keys) as searcher:
            await searcher.search(Query("weir"), time.time())
            library.site.page("/a", "The weir of autumn.")
            await library.crawl()
            real = searcher._pages.read

            async def swapped_first(item_ids: Iterable[str]) -> Any:
                searcher._pages.read = real  # type: ignore[method-assign]
                await library.embed()
                return await real(list(item_ids))

            searcher._pages.read = swapped_first  # type: ignore[assignment,method-assign]
            found = await searcher.search(Query("weir", lexical_weight=1.0), time.time())

        assert ["autumn" in one.passages[0].snippet for one in found.results if one.page.url.endswith("/a")] == [True]


async def test_changed_text_is_found_at_once(settings: Settings) -> None:
    """By its new words, under its new title, and by meaning where its chunks have stayed; the old text is gone."""
    kept = "".join(f"<h2>Part {n}</h2><p>{'The weir holds the river back. ' * 30}</p>" for n in range(3))
    async with open_library(settings, {"/a": "x"}, embedder="local") as library:
        library.site.web.page("/a", f"<title>Lemons</title><body><main><p>The lemon harvest.</p>{kept}</main>")
        await library.crawl()
        await library.embed()
        await library.context.client.delete(*[key async for key in library.context.client.scan_iter("embed:cache:*")])
        library.site.web.page("/a", f"<title>Strike</title><body><main><p>The dockers walk out.</p>{kept}</main>")
        await library.crawl()
        old = await library.ask("lemon", lexical_weight=1.0)
        new = await library.ask("dockers", lexical_weight=1.0)
        same = await library.ask("what is it that dams up the stream")

    assert [one.page.url for one in old.results if one.page.url.endswith("/a")] == []
    assert (new.results[0].page.title, "dockers walk out" in new.results[0].passages[0].snippet) == ("Strike", True)
    assert [one.passages[0].semantic > 0 for one in same.results if one.page.title == "Strike"] == [True]


async def test_domains_and_categories_are_those_of_now(settings: Settings) -> None:
    """A page that another source lists too, or one that a source has dropped, is found there or not, at once."""
    async with open_library(settings, {"/a": "The weir."}) as library:
        context = library.context
        await library.embed()
        both: dict[str, list[int]] = {"docs": [], "more": []}

        async def ask() -> None:
            for name, counts in both.items():
                counts.append(len(await library.urls("weir", filters=filters(domains=(name,)), lexical_weight=1.0)))

        await ask()
        await add_site(context, library.site.url("/"), "more")
        await crawl_source(context, "more.site", CrawlMode.INCREMENTAL)
        await ask()
        (item,) = await context.items.read([library.id("/a")])
        await context.leases.run(context.items.unlist(item, SID))
        await ask()

    assert both == {"docs": [1, 1, 0], "more": [0, 1, 1]}


async def test_page_that_becomes_another_name_and_comes_back(settings: Settings) -> None:
    """While it redirects it is named as an alias; when it is a page of its own again it is not."""
    async with open_library(settings, {"/a": "The weir.", "/b": "The mill."}) as library:
        await library.embed()
        await library.urls("weir")
        library.site.web.redirect("/a", library.site.url("/b"), 301)
        await library.crawl()
        await library.embed()
        async with open_searcher(library.settings, library.context.client, library.context.keys) as searcher:
            told = await searcher.follower.compare()
        moved = await library.ask("mill", lexical_weight=1.0)
        library.site.page("/a", "The weir again.")
        await library.crawl()
        await library.embed()
        back = await library.ask("mill", lexical_weight=1.0)

    assert (told["missing"], told["extra"]) == (0, 0)
    assert [one.aliases for one in moved.results] == [(library.site.url("/a"),)]
    assert [one.aliases for one in back.results] == [()]


async def test_every_page_can_be_turned_to(settings: Settings) -> None:
    """More pages than are joined at first: each is on exactly one page of the answer, and once all are ranked the
    total is theirs; before, it says that there are more."""
    pages = {f"/{number}": f"Gazelle report number {number}." for number in range(260)}
    async with open_library(settings, pages) as library:
        await library.embed()
        async with open_searcher(library.settings, library.context.client, library.context.keys) as searcher:
            found = [
                await searcher.search(Query("gazelle report", page=n, per_page=50), time.time()) for n in range(1, 8)
            ]

    urls = [one.page.url for part in found for one in part.results]
    assert len(urls) == len(set(urls))
    assert set(urls) >= {library.site.url(path) for path in pages}
    assert {part.total for part in found if not part.has_more} == {len(urls)}
    assert [part.has_more for part in found] == [True, True, False, False, False, False, False]
    assert all(FUSION_DEPTH < part.total <= len(urls) for part in found)


async def test_too_many_to_rank_is_said(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The total is then the least there are."""
    monkeypatch.setattr("core.search.ranking.FUSION_DEPTH", 5)
    monkeypatch.setattr("core.search.io.searcher.CANDIDATES", 10)
    async with open_library(settings, {f"/{n}": f"The weir {n}." for n in range(8)}) as library:
        found = await library.ask("weir", lexical_weight=1.0)

    assert (found.total, found.has_more) == (6, True)


async def test_article_is_found_as_soon_as_it_is_stored(settings: Settings) -> None:
    """By its words, in its category; vectors follow; when it ends it is never shown, and the sweep takes its chunks."""
    async with open_library(settings, {"/x": "Nothing of interest."}) as library:
        context, client, keys = library.context, library.context.client, library.context.keys
        paper = ArticlePage(context, library.site.web, "/news/strike")
        paper.write("The dockers voted for a walkout in the old harbour, the union said on Monday. " * 6)
        await paper.store()

        at_once = await library.ask("dockers walkout", lexical_weight=1.0, filters=filters(categories=("world",)))
        assert [one.page.url for one in at_once.results] == [paper.url]
        assert (await library.waiting())[0] == paper.id  # newest first
        await library.embed()
        assert (await paper.item())["status"] == "Indexed"
        assert [one.page.url for one in (await library.ask("dockers walkout", lexical_weight=1.0)).results] == [
            paper.url
        ]
        assert await library.urls("dockers walkout", filters=filters(categories=("sport",))) == []

        await client.delete(keys.article(paper.uid))  # its life is over: no event
        async with behind(library):
            assert paper.url not in [one.page.url for one in (await library.ask("dockers walkout")).results]
        assert await client.zcard(keys.chunks(paper.id)) > 0
        await Pruner(client, keys, Ttls.of(library.settings)).run(["world"], await connect.now(client))
        assert await client.zcard(keys.chunks(paper.id)) == 0
        assert await client.zscore(keys.refs(ARTICLES_SOURCE), paper.id) is not None
        assert await library.index_errors() == []
        async with open_searcher(library.settings, client, keys) as searcher:
            told = await searcher.follower.compare()
        assert (told["missing"], told["extra"]) == (0, 0)


# ── languages the model does not speak ──

GERMAN = {
    "/schleuse": "Die Schleuse am unteren Tor wurde nach dem Hochwasser repariert und im Mai wieder geöffnet.",
    "/wehr": "Das Wehr staut den Fluss oberhalb der Mühle; Fische steigen über eine Treppe auf.",
    "/pegel": "Der Pegel meldet alle zehn Minuten die Höhe des Flusses an das Amt im Tal.",
    "/streik": "Die Hafenarbeiter stimmten für den Streik, sieben von zehn Mitgliedern waren dafür.",
    "/fussball": "Die Mannschaft gewann das Spiel im Regen mit zwei Toren nach der Pause.",
}


ENGLISH = {
    "/lock": "The lock at the lower gate was repaired after the flood and opened again in May.",
    "/strike": "The dockers voted for the strike; seven in ten members were for it.",
    "/match": "The team won the match in the rain; die-hard fans cheered after the break.",
}


@pytest.mark.parametrize("others", [{}, ENGLISH], ids=["alone", "among English pages"])
async def test_language_that_the_model_does_not_speak_is_as_good_as_words(
    settings: Settings, others: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For German texts and the English model alone, the answer is that of words, place by place; English questions
    still find by meaning."""
    monkeypatch.setattr(multilingual_embedder, "is_installed", lambda: False)
    async with open_library(settings, dict.fromkeys(GERMAN, "x") | others, embedder="local") as library:
        for path, text in GERMAN.items():
            body = f"<html lang=de><head><title>{path[1:]}</title></head><body><main><p>{text}</p></main></body></html>"
            library.site.web.page(path, body)
        links = "".join(f'<a href="{path}">{path}</a> ' for path in [*GERMAN, *others])
        start = (
            f"<html lang=de><title>Start</title><body><nav>{links}</nav><main><p>Willkommen.</p></main></body></html>"
        )
        library.site.web.page("/", start)
        await library.crawl()
        await library.embed()
        questions = (
            "Wann wurde die Schleuse geöffnet",
            "Streik der Hafenarbeiter",
            "Höhe des Flusses",
            "Spiel im Regen",
        )
        for question in questions:
            both, words = await library.urls(question), await library.urls(question, lexical_weight=1.0)
            assert both == words, question
            assert words
        if others:
            assert (await library.urls("which labour dispute did workers decide on"))[0] == "/strike"


RUSSIAN = {
    "/plotina": "Плотина поднимает воду выше мельницы, рыба идёт по лестнице.",
    "/uroven": "Уровень реки измеряют каждые десять минут.",
    "/zabastovka": "Докеры проголосовали за забастовку, семь из десяти были за.",
}
JAPANESE = {
    "/seki": "堰は水車の上流で川をせき止める。魚は階段を上る。",
    "/suii": "水位は十分ごとに役所に報告される。",
    "/suto": "港湾労働者はストライキに賛成票を投じた。",
}


@pytest.mark.parametrize("lang", ["en", "", "xx"])
@pytest.mark.parametrize(
    ("foreign", "questions"),
    [
        (RUSSIAN, ("забастовка докеров", "уровень реки", "рыба")),
        (JAPANESE, ("ストライキ", "水位", "魚の階段")),
        (GERMAN, ("Streik der Hafenarbeiter", "Höhe des Flusses", "Spiel im Regen")),
    ],
    ids=["Russian", "Japanese", "German"],
)
async def test_page_that_says_the_wrong_language_or_none(
    settings: Settings, foreign: dict[str, str], questions: tuple[str, ...], lang: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Letters and small words tell, not the template: among English pages the answer is that of words alone, where only
    the English model is installed."""
    monkeypatch.setattr(multilingual_embedder, "is_installed", lambda: False)
    async with open_library(settings, ENGLISH | dict.fromkeys(foreign, "x"), embedder="local") as library:
        for path, text in foreign.items():
            head = f"<html lang='{lang}'><meta charset=utf-8><title>{path[1:]}</title>"
            library.site.web.page(path, f"{head}<main><p>{text}</p></main>")
        await library.crawl()
        await library.embed()
        for question in questions:
            both, words = await library.urls(question), await library.urls(question, lexical_weight=1.0)
            assert both == words, question
            assert words
        found = await library.ask("which labour dispute did workers decide on")

    assert found.results[0].page.url.endswith("/strike")
    assert "meaning" in found.by


@pytest.mark.parametrize(
    ("question", "by"),
    [
        ("the weir", "words and meaning"),
        ('"the weir"', "words (quoted words are looked for as they are)"),
        ('"not there at all"', "words (quoted words are looked for as they are)"),
        ('what is a weir, "not there at all"', "words and meaning; no text has all that is in quotes"),
        ('"the weir" and "the harbour" weir', "words and meaning; no text has all that is in quotes"),
        ('look at "the weir" of stone', "words and meaning"),
        ("забастовка", "words (no page in other languages is embedded yet)"),
        ("wer hat die Schleuse für den Fluss", "words (no page in other languages is embedded yet)"),
        ("η απεργία", "words (the model does not speak the language of this question)"),
        (" ", "words"),
        ("where is the zxqv of wuggle", "meaning (no text has any of these words; what is nearest is shown)"),
        (
            "which weir has the zxqv blorft of wuggle",
            "words and meaning (no text has most of these words; what is nearest is shown)",
        ),
    ],
)
async def test_says_by_what_it_looked(settings: Settings, question: str, by: str) -> None:
    """With the reason where meaning took no part."""
    async with open_library(settings, {"/a": "The weir."}, embedder="local") as library:
        await library.embed()
        assert (await library.ask(question)).by == by


async def test_small_words_of_a_language_that_no_page_is_in_find_nothing(settings: Settings) -> None:
    """`die` is not looked for as `died`, nor `hat` as a hat, where small words tell that the question is German."""
    pages = {"/a": "Twelve died in the flood of the harbour.", "/b": "The hat of a docker, and what is in it."}
    async with open_library(settings, pages) as library:
        german, english = await library.urls("Wer hat die Streikabstimmung gewonnen?"), await library.urls("the hat")

    assert german == []
    assert [url.rpartition("/")[2] for url in english] == ["b"]


async def test_total_does_not_depend_on_the_page_size(settings: Settings) -> None:
    """Every way of paging through an answer gives the same pages and the same total."""
    pages = {f"/{number}": f"Weir number {number}. " * (1 + number) for number in range(30)}
    async with open_library(settings, pages) as library:
        await library.embed()
        by_size = []
        for size in (1, 7, 50):
            seen = []
            for page in range(1, 32 // size + 2):
                found = await library.ask("weir", lexical_weight=1.0, page=page, per_page=size)
                seen += [one.page.url for one in found.results]
                by_size.append(found.total)
            assert len(seen) == len(set(seen)) == 30, size

    assert set(by_size) == {30}


async def test_expired_page_makes_room_for_the_next(settings: Settings) -> None:
    """What is gone without an event is left out, and the answer is still full."""
    pages = {f"/{number}": "The weir. " * (number + 1) for number in range(6)}
    async with open_library(settings, pages) as library:
        await library.embed()
        best = await library.urls("weir", lexical_weight=1.0, per_page=2)
        for path in best:
            await library.context.client.delete(library.context.keys.document(library.id(path)))
        found = await library.ask("weir", lexical_weight=1.0, per_page=2)

    assert len(found.results) == 2
    assert not {library.site.url(path) for path in best} & {one.page.url for one in found.results}
    assert found.total == 4


# ── what changes while the text stays ──


async def test_metadata_is_shown_at_once_and_costs_no_vector(settings: Settings) -> None:
    """Title, author, date and image of a page are corrected: search shows them and finds the new title, with the same
    chunks and vectors, and an embed worker that is woken for it asks the model nothing."""
    async with open_library(settings, {"/a": "The weir was repaired in spring."}) as library:
        await library.embed()
        client, keys, page_id = library.context.client, library.context.keys, library.id("/a")
        await library.ask("weir")
        chunks = await client.zrange(keys.chunks(page_id), 0, -1)
        raw = connect.open_raw(library.settings)
        vectors = [await raw.get(keys.vector(name)) for name in chunks]
        asked = len(library.server.texts)

        new = {"title": "Corrected headline", "author": "A. Weaver", "published_ts": "1769000000"}
        await client.hset(keys.document(page_id), mapping={**new, "image": "https://e.org/new.jpg"})
        await client.xadd(keys.events, {"type": "item.changed", "id": page_id})
        found = await library.ask("corrected headline", lexical_weight=1.0)

        page = found.results[0].page
        assert (page.url, page.title, page.author) == (library.site.url("/a"), "Corrected headline", "A. Weaver")
        assert (page.published_ts, page.image) == (1_769_000_000, "https://e.org/new.jpg")
        assert await library.urls("corrected", filters=filters(since_ts=1_768_999_999, until_ts=1_769_000_001)) == [
            "/a"
        ]

        for status in ("Indexed", "Crawled"):
            await client.hset(keys.item(page_id), "status", status)
            await client.zadd(keys.embed_due, {page_id: 1})
            await library.embed()
        assert await library.waiting() == []
        assert await client.zrange(keys.chunks(page_id), 0, -1) == chunks
        assert [await raw.get(keys.vector(name)) for name in chunks] == vectors
        assert [text for text in library.server.texts[asked:] if "weir" in text] == []
        await raw.aclose()


async def test_chunks_of_before_have_no_level_and_get_it_without_the_model(settings: Settings) -> None:
    """They are found as they are; when they are next written they have level, types and created_at, under the same id
    and with the same vector."""
    async with open_library(settings, {"/a": "The weir was repaired in spring."}) as library:
        await library.embed()
        client, keys, page_id = library.context.client, library.context.keys, library.id("/a")
        [name] = await client.zrange(keys.chunks(page_id), 0, -1)
        whole = await client.hgetall(keys.chunk(name))
        await client.hdel(keys.chunk(name), "level", "types", "created_at")
        [passage] = (await library.ask("weir", lexical_weight=1.0)).results[0].passages
        assert (passage.level, passage.types) == (0, ())

        asked = len(library.server.texts)
        await client.hset(keys.item(page_id), "indexedHash", "")
        await client.zadd(keys.embed_due, {page_id: 1})
        await library.embed()
        again = await client.hgetall(keys.chunk(name))
        [passage] = (await library.ask("weir", lexical_weight=1.0)).results[0].passages

        assert {**again, "created_at": ""} == {**whole, "created_at": ""}
        assert again["created_at"] >= whole["created_at"]
        assert (again["level"], again["types"]) == ("0", '["text"]')
        assert (passage.level, passage.types) == (0, ("text",))
        assert [text for text in library.server.texts[asked:] if "weir" in text] == []
        [stayed] = await client.zrange(keys.chunks(page_id), 0, -1)
        assert stayed == name


async def test_created_at_stays_while_a_chunk_does(settings: Settings) -> None:
    """An edit elsewhere in the page writes the chunk again: it is as old as it was."""
    async with open_library(settings, {"/a": "The weir was repaired in spring."}) as library:
        await library.embed()
        client, keys, page_id = library.context.client, library.context.keys, library.id("/a")
        [name] = await client.zrange(keys.chunks(page_id), 0, -1)
        await client.hset(keys.chunk(name), "created_at", "2020-01-01T00:00:00Z")
        await client.hset(keys.item(page_id), "indexedHash", "")
        await client.zadd(keys.embed_due, {page_id: 1})
        await library.embed()

        assert await client.hget(keys.chunk(name), "created_at") == "2020-01-01T00:00:00Z"
