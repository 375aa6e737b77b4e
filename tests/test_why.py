"""The trail of a URL: every way in which one can be missing, those that are there, and names that nobody knows."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from redis.asyncio import Redis

from core import ids
from core.models import Ref
from core.registry.io import why_listing_reader
from core.registry.io.registrar import Listing
from core.registry.io.why_trail_reader import explain_url
from core.registry.why_verdict import Outcome, StationName, StationState, Trail
from core.runtime.context import Context
from core.settings import Settings
from core.store import connect
from scripts import why
from tests import commands
from tests.articles import add, article, run
from tests.crawled_site import SID, add_site
from tests.search_site import open_library
from tests.web import FakeWeb
from tests.why_scene import HOSTS, OPAQUE, TRAP, Scene, open_scene

FOUND, ELSEWHERE, WAITING, MISSING = Outcome.FOUND, Outcome.ELSEWHERE, Outcome.WAITING, Outcome.MISSING
UNKNOWN, REFUSED, FEED = Outcome.UNKNOWN, Outcome.REFUSED, Outcome.FEED


class Row(NamedTuple):
    """A URL, the verdict on it, the station that decides, and words of the sentence."""

    name: str
    outcome: Outcome
    station: str
    words: str
    advice: str = ""


def rows(scene: Scene) -> list[Row]:
    news, docs, web = scene.news, scene.docs, scene.web
    return [
        # ── links of feeds: the visit ──
        Row(news("/missing"), MISSING, "visit", "failed with FAIL_HTTP/status: HTTP 404; tried once", "--force"),
        Row(news("/gone"), MISSING, "visit", "HTTP 410; tried once; it is not tried again for 29d"),
        Row(news("/forbidden"), MISSING, "visit", "HTTP 403"),
        Row(news("/error"), WAITING, "visit", "HTTP 500; try 1 of 4, the next in "),
        Row(news("/reset"), WAITING, "visit", "FAIL_HTTP/reset: the connection broke off; try 1 of 4"),
        Row(news("/slow"), WAITING, "visit", "FAIL_TIMEOUT: the answer took too long"),
        Row(news("/empty"), MISSING, "visit", "FAIL_BAD_HTML: only 26 characters"),
        Row(news("/archive"), MISSING, "visit", "FAIL_PARSE/type: this is binary data"),
        Row(news("/large"), MISSING, "visit", "FAIL_HTTP/too_large"),
        Row(news("/home"), MISSING, "visit", "it redirects to the home page"),
        Row(news("/loop-a"), MISSING, "visit", "the redirects lead in a circle"),
        Row(news("/forgotten"), MISSING, "visit", "neither an article nor a failure is left of it"),
        Row(ids.article_uid(news("/forgotten")), MISSING, "visit", "it was attempted before"),
        Row(news("/late"), WAITING, "visit", "the canonical fetcher takes new links in its next run"),
        # ── links of feeds: on the way there ──
        Row(news("/leased"), WAITING, "lease", "a worker is visiting it at this moment"),
        Row(news("/secret/deep/x"), MISSING, "robots", "does not allow it (Disallow: /secret/deep)", "robots.txt"),
        Row(web.url("/a", HOSTS[3]), WAITING, "robots", "cannot be read, so nothing is fetched; it is asked again"),
        Row(web.url("/a", HOSTS[2]), WAITING, "rate limit", "is left alone for 5"),
        Row("ftp://files.example/x", MISSING, "address", "only http and https are fetched"),
        Row("http://10.0.0.1/inside", MISSING, "address", "it leads to a private address", "FETCH_ALLOWED_HOSTS"),
        Row(OPAQUE, REFUSED, "address", "only the aggregator's server knows where it leads", "in a browser"),
        # ── links of feeds: afterwards ──
        Row(news("/alias"), ELSEWHERE, "", f"the same page as {news('/ok')}"),
        Row(ids.article_uid(news("/alias")), ELSEWHERE, "", f"the same page as {news('/ok')}"),
        Row(news("/alias-dead"), MISSING, "identity", "of which no text is stored any more", "--force"),
        Row(news("/hidden"), MISSING, "text", "hidden until the page is back or gone for good: HTTP 404 (1 of 3"),
        Row(news("/expired"), MISSING, "text", "its article expired", "ARTICLE_TTL_SECONDS"),
        Row(news("/ended"), MISSING, "text", "its article expired", "--force"),
        # ── pages of sites: scope ──
        Row(docs("/docs/private/x"), MISSING, "scope", "leaves it out (exclude /docs/private/*)", "Change exclude"),
        Row(docs("/guide/de/x"), MISSING, "scope", "docs.guide does not take it: no pattern takes it in (include /g"),
        Row(docs("/docs/three"), MISSING, "scope", "it lies too deep (max_depth 2)", "Change max_depth"),
        Row(docs("/other/x"), MISSING, "scope", "docs.site does not take it: it lies outside (scope subpages of "),
        Row(docs("/docs/pic.jpg"), MISSING, "scope", "it is not a document (names that end in .jpg have no text)"),
        Row(docs(TRAP), MISSING, "scope", "it looks like a spider trap, the same path segments again and again"),
        Row(docs("/tiny/4"), MISSING, "scope", "max_pages (3) is reached", "Raise max_pages of docs.tiny"),
        Row(docs("/docs/unlinked"), UNKNOWN, "listing", "docs.site would take it, but no page of the 2", "Link to it"),
        # ── pages of sites: the rest ──
        Row(docs("/docs/robots/x"), MISSING, "robots", "does not allow it (Disallow: /docs/robots/)"),
        Row(docs("/paused/"), WAITING, "pause", "domain:paused is paused since 2026-01-31", "resume paused"),
        Row(docs("/cancelled/"), WAITING, "pause", "jb_1_abcdef01 over source:cancelled.site was cancelled"),
        Row(docs("/later/"), WAITING, "visit", "it has not been read yet; its visit is due now"),
        Row(docs("/docs/noindex"), MISSING, "visit", "not taken: the page asks not to be indexed (noindex)"),
        Row(docs("/docs/404"), MISSING, "visit", "found nothing: HTTP 404 (2 of 3 checks"),
        Row(docs("/docs/410"), MISSING, "visit", "it is gone: HTTP 410"),
        Row(docs("/docs/lost"), MISSING, "visit", "found nothing: HTTP 404 (1 of 3 checks"),
        Row(docs("/docs/500"), WAITING, "visit", "failed: HTTP 500, 2 times in a row; the next check is in"),
        Row(docs("/docs/poison"), MISSING, "visit", "reading this killed Freshet 3 times; it is parked", "--force"),
        Row(docs("/docs/orphan"), MISSING, "visit", "it is gone: nothing in docs.site leads to it any more"),
        Row(scene.image_id("/docs/ok", "/docs/weir.png"), ELSEWHERE, "", f"It is an image of {docs('/docs/ok')},"),
        Row(docs("/docs/moved"), ELSEWHERE, "", f"the same page as {docs('/docs/ok')}, by a redirect"),
        # ── files ──
        Row(f"{scene.folder}/draft.md", UNKNOWN, "scope", "papers.shelf does not take it: a pattern leaves it"),
        Row(f"{scene.folder}/none.md", UNKNOWN, "listing", "papers.shelf would take it, but its last listing"),
        Row("/nowhere/at/all.md", UNKNOWN, "listing", "it lies in no folder that Freshet reads", "add FOLDER"),
        # ── what nobody knows ──
        Row("https://mill.example/x?utm_source=a#b", UNKNOWN, "listing", "no feed", "cleaned to https://mill.example/x."),
        Row("mill.example/x", UNKNOWN, "listing", "no feed, page, sitemap", "cleaned to https://mill.example/x."),
        Row(news("/secret/unknown"), REFUSED, "robots", "does not allow it (Disallow: /secret)"),
        Row("http://93.184.216.34:22/x", REFUSED, "connection", "its port 22 is not open to us", "FETCH_ALLOWED_HOSTS"),
        Row(f"https://{HOSTS[0]}:{web.port}/ok", UNKNOWN, "listing", "no feed", "(http instead of https)."),
        Row(f"http://name:word@{HOSTS[0]}:{web.port}/ok", REFUSED, "address", "a password", f"Known is {news('/ok')}"),
        Row("0123456789abcdef", UNKNOWN, "listing", "nothing that is stored has this id or uid"),
        Row("javascript:alert(1)", REFUSED, "address", "only http and https are fetched"),
        Row("nonsense", REFUSED, "address", "it cannot be read as a URL"),
        Row("", REFUSED, "address", "there is no URL in it"),
        # ── feeds ──
        Row(news("/feed"), FEED, "", "a feed of world and well: polled", "scripts.feeds health"),
        Row(news("/bad-feed"), FEED, "feed", "failed: HTTP 500; the next poll is in "),
        Row(news("/dead-feed"), FEED, "feed", "its publisher has retired it: 410 Gone"),
        Row(news("/new-feed"), FEED, "feed", "not polled yet; the next poll is now"),
        # ── what is there ──
        Row(news("/ok"), FOUND, "", "Search finds it by words; by meaning once it is embedded."),
        Row(news("/ok/"), FOUND, "", "Search finds it"),
        Row(f"https://www.google.com/url?q={news('/ok')}%3Futm_source%3Dx&sa=D", FOUND, "", "Search finds it"),
        Row(scene.item_id(news("/ok")), FOUND, "", "Search finds it"),
        Row(ids.article_uid(news("/ok")), FOUND, "", "Search finds it"),
        Row(news("/twin"), FOUND, "", f"as one result with {news('/ok')}, which had the same text first"),
        Row(news("/kept"), FOUND, "", "though its last check failed: HTTP 503"),
        Row(docs("/docs/ok"), FOUND, "", "Search finds it"),
        Row(docs("/small/b"), FOUND, "", "it is missing, and kept: its source would lose too much", "crawl docs --yes"),
        Row(f"{scene.folder}/notes.md", FOUND, "", "Search finds it"),
    ]  # fmt: skip


@pytest.fixture
async def scene(settings: Settings, redis: connect.Client, tmp_path: Path) -> AsyncIterator[Scene]:
    folder = tmp_path / "shelf"
    folder.mkdir()
    async with open_scene(settings, folder) as opened:
        yield opened


def problem(row: Row, trail: Trail) -> str:
    """What is not as the row says; empty if all is."""
    station = str(trail.stopped_at or "")
    is_right = (trail.outcome, station) == (row.outcome, row.station)
    is_right = is_right and row.words in trail.verdict and row.advice in trail.advice
    return "" if is_right else f"{row}\n  {trail.outcome}, {station}: {trail.verdict} → {trail.advice}"


READS = {
    *("EXISTS", "GET", "HEXISTS", "HGET", "HGETALL", "HMGET", "PTTL", "SISMEMBER", "SMEMBERS", "SMISMEMBER"),
    *("SRANDMEMBER", "ZCARD", "ZCOUNT", "ZMSCORE", "ZRANGE", "ZREVRANGE", "ZSCORE", "TIME", "ECHO", "CLIENT"),
}


async def test_every_way_a_url_can_be_missing(scene: Scene, settings: Settings) -> None:
    """The verdict names the reason and the station; nothing is written, scanned or requested."""
    before, requests = await commands.everything(scene.client), len(scene.web.requests)
    wrong: list[str] = []
    trails: list[Trail] = []
    async with connect.open_store(settings) as watcher, watcher.monitor() as monitor:
        for row in rows(scene):
            trails.append(await scene.explain(row.name))
            wrong += filter(None, [problem(row, trails[-1])])
        await scene.client.echo("end")
        sent = await _commands_until(monitor, "end")

    assert "\n".join(wrong) == ""
    assert sent - READS == set()
    assert await commands.everything(scene.client) == before
    assert len(scene.web.requests) == requests
    assert all(json.loads(json.dumps(trail.to_json()))["stations"] for trail in trails)


async def _commands_until(monitor: Any, word: str) -> set[str]:
    sent: set[str] = set()
    async for event in monitor.listen():
        name, *rest = event["command"].split(" ")
        sent.add(name.upper())
        if rest == [word]:
            return sent
    raise AssertionError


async def test_stations_tell_the_details(scene: Scene) -> None:
    """Facts for programs: feeds, categories, TTLs, cleaning steps, failures, depth, chunks, the next check."""
    wrapped = f"https://www.google.com/url?q={scene.news('/ok')}%3Futm_source%3Dx%23top&sa=D"
    ok = {station.name: station.facts for station in (await scene.explain(wrapped)).stations}
    failed = {station.name: station.facts for station in (await scene.explain(scene.news("/error"))).stations}
    page = {station.name: station.facts for station in (await scene.explain(scene.docs("/docs/ok"))).stations}

    assert [step["name"] for step in ok[StationName.ADDRESS]["steps"]] == ["unwrapped", "fragment", "trackers"]  # type: ignore[attr-defined]
    assert ok[StationName.LISTING]["feeds"] == [
        {"url": scene.news("/feed"), "categories": ["world"], "in_last_body": True}
    ]
    link = ok[StationName.LISTING]["link_sets"][0]  # type: ignore[index]
    assert link["category"] == "world"
    assert link["expires_at"] > link["seen_at"]
    assert 6 * 86_400 < ok[StationName.TEXT]["expires_in_seconds"] <= 7 * 86_400  # type: ignore[operator]
    assert (ok[StationName.VISIT]["verified_by"], ok[StationName.VISIT]["http_status"]) == ("read", 200)
    assert ok[StationName.IDENTITY]["aliases"] == [scene.news("/alias")]
    failure = failed[StationName.VISIT]["failure"]
    assert isinstance(failure, dict)
    assert (failure["code"], failure["http_status"], failure["tries"]) == ("FAIL_HTTP", 500, 1)
    assert failed[StationName.VISIT]["retry_at"] > failure["last_at"]  # type: ignore[operator]
    assert page[StationName.LISTING]["pages"] == [{"url": scene.docs("/docs/"), "source": "docs.site", "depth": 0}]
    assert page[StationName.NEXT_CHECK]["due"].keys() == {"docs.site"}  # type: ignore[attr-defined]
    assert page[StationName.RUN]["runs"][0]["source"] == "docs.site"  # type: ignore[index]
    run = failed[StationName.RUN]["runs"][0]  # type: ignore[index]  # though a failed link has no record
    assert (run["kind"], run["failed_in_it"]) == ("canonical", True)

    await scene.client.hset(scene.keys.runs_paused, "canonical", "2026-01-31T12:00:00Z")
    await scene.client.hset(scene.keys.runs_paused, "ingest", "2026-01-31T12:00:00Z")
    waiting, feed = await scene.explain(scene.news("/late")), await scene.explain(scene.news("/feed"))
    assert waiting.stopped_at is StationName.PAUSE
    assert feed.stopped_at is StationName.PAUSE
    assert "and well: polled" in feed.verdict
    assert "The work on ingest is paused" in feed.verdict


async def test_search_by_meaning(settings: Settings, redis: connect.Client) -> None:
    """Chunks and vectors are counted; while the embedder is away, that is the reason."""
    async with open_library(settings, {"/a": "About weirs."}) as library:
        context = library.context

        async def explain() -> Trail:
            url, now = library.site.url("/a"), await connect.now(context.client)
            return await explain_url(context.client, context.keys, library.settings, url, now)

        await context.client.set(context.keys.embed_away, "The embedding API does not answer.")
        waiting = await explain()
        await context.client.delete(context.keys.embed_away)
        await library.embed()
        embedded = await explain()

    assert "by meaning once it is embedded (The embedding API does not answer)" in waiting.verdict
    assert embedded.verdict == "Search finds it, by words and by meaning."
    index = embedded.station(StationName.INDEX)
    assert index
    assert (index.state, index.facts["chunks"], index.facts["vectors"]) == (StationState.PASSED, 1, 1)


# ── input that nobody expects ──

SECRETS = [
    "https://name:hunter22@mill.example/a",
    "https://mill.example/a?access_token=hunter22",
    "https://mill.example/a?next=https%3A%2F%2Fname%3Ahunter22%40h.example%2F",
]
HOSTILE = [
    "https://mill.example/" + "a" * 1_000_000,
    "\0",
    "https://mill.example/\0a",
    "/etc/\0passwd",
    "/etc/\ud800",
    "/etc/\udc80",
    "javascript:alert(document.cookie)",
    "data:text/html,<script>alert(1)</script>",
    "https://mill.example/\ud800",
    "\ud800\udfff",
    "http://[::1",
    "http://" + "a." * 500 + "example/",
    "\x1b[2Jhttps://mill.example/",
    "*",
    "url_*",
    "file:///etc/passwd",
    "C:\\notes\\a.md",
    "redis://:hunter22@127.0.0.1:6379/0",
    "https://mill.example/?" + "&".join(f"a{number}={number}" for number in range(1_000)),
    *SECRETS,
]


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name[:30]))
async def test_hostile_names_get_a_sentence(context: Context, name: str) -> None:
    """No exception, no write, no secret in the answer, and not more than a screen of text."""
    before = await context.client.dbsize()
    trail = await explain_url(context.client, context.keys, context.settings, name, 1_800_000_000.0)
    answer = json.dumps(trail.to_json()) + "".join(why.lines(trail))

    assert trail.outcome in (UNKNOWN, REFUSED)
    assert trail.verdict.endswith(".")
    assert "hunter22" not in answer
    assert len(answer) < 60_000
    assert await context.client.dbsize() == before


async def test_secrets_of_subscribers_are_not_told(context: Context) -> None:
    """A feed with a token, and a link with a signature that someone added by hand, are found and hidden."""
    client, keys = context.client, context.keys
    feed, link = "https://mill.example/feed?access_token=hunter22", "https://mill.example/a?sig=hunter22"
    await client.sadd(keys.categories, "world")
    await client.sadd(keys.feeds("world"), feed)
    await client.sadd(keys.category_links("world"), link)
    trails = [await explain_url(client, keys, context.settings, one, 1_800_000_000.0) for one in (feed, link)]

    assert [trail.outcome for trail in trails] == [FEED, WAITING]
    assert not any("hunter22" in json.dumps(trail.to_json()) + "".join(why.lines(trail)) for trail in trails)


async def test_damaged_keys_are_left_alone(context: Context) -> None:
    """Keys of another type and fields that are no numbers: the answer goes without them, and nothing is put aside."""
    client, keys = context.client, context.keys
    url = "https://mill.example/a"
    item_id = ids.item_id("url", url)
    await client.set(keys.failure(ids.article_uid(url)), "a text")
    await client.set(keys.runs_paused, "a text")
    await client.hset(keys.item(item_id), mapping={"status": "Odd", "checkedTs": "soon", "crawlAttempts": "many"})
    await client.sadd(keys.sources, "docs.site")
    await client.hset(keys.source("docs.site"), "config", "{")
    before = await commands.everything(client)
    trail = await explain_url(client, keys, context.settings, url, await connect.now(client))

    assert trail.outcome is MISSING
    assert await commands.everything(client) == before


# ── bounds ──


async def test_pages_are_looked_at_up_to_a_limit(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit it says that not all pages were looked at."""
    monkeypatch.setattr(why_listing_reader, "MOST_PAGES", 3)
    now, root = await connect.now(context.client), "https://mill.example/docs/"
    await add_site(context, root)
    await context.registrar.register([Ref(f"{root}{number}", depth=1) for number in range(5)], Listing(SID), now)
    await context.sources.finish_listing(SID, None, "complete", now, now + 60)
    trail = await explain_url(context.client, context.keys, context.settings, f"{root}unlinked", now)

    assert "no page of the first 3 (the others were not looked at) links there" in trail.verdict


async def test_ten_thousand_feeds_are_a_few_round_trips(context: Context) -> None:
    """A link that the last of ten thousand feeds lists is found, in bounded batches."""
    client, keys = context.client, context.keys
    await client.zadd(keys.feeds_due, {f"{number:016x}": number for number in range(10_000)})
    await client.sadd(keys.feed_links(f"{9_999:016x}"), "https://mill.example/a")
    await client.hset(keys.feed(f"{9_999:016x}"), mapping={"url": "https://mill.example/feed", "categories": "world"})
    before = (await client.info("commandstats"))["cmdstat_smismember"]["calls"] if await _has_run(client) else 0
    trail = await explain_url(client, keys, context.settings, "https://mill.example/a", await connect.now(client))
    after = (await client.info("commandstats"))["cmdstat_smismember"]["calls"]

    listing = trail.station(StationName.LISTING)
    assert listing
    assert listing.sentence == "Listed by the feed https://mill.example/feed (world)."
    assert after - before <= 10_010


async def _has_run(client: Redis) -> bool:
    return "cmdstat_smismember" in await client.info("commandstats")


# ── the script ──


async def test_script_prints_the_verdict_first(
    context: Context, web: FakeWeb, adopted: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Verdict, advice, then a line for each station with its mark; exit code 1 for what is missing."""
    web.page("/ok", article())
    await add(context, web.url("/ok"), web.url("/missing"))
    await run(context)
    capsys.readouterr()
    code = await why.why(web.url("/missing"), as_json=False, ask=False)
    printed = capsys.readouterr().out.splitlines()
    found = await why.why(web.url("/ok"), as_json=True, ask=False)
    answer = json.loads(capsys.readouterr().out)

    assert (code, found) == (1, 0)
    assert printed[0].startswith("Not there: the visit ")
    assert printed[1].startswith("→ python -m scripts.reindex --force")
    marks = {line.split()[1]: line[0] for line in printed if line[:2] in ("✓ ", "✗ ", "… ", "? ", "· ")}
    assert (marks["address"], marks["visit"], marks["search"]) == ("✓", "✗", "·")
    assert (answer["outcome"], answer["stopped_at"]) == ("found", None)


async def test_ask_reads_robots_once(web: FakeWeb, adopted: None, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --ask nothing is requested; with it robots.txt, once, and the rule is told."""
    web.robots("User-agent: *\nDisallow: /a")
    await why.why(web.url("/a"), as_json=False, ask=False)
    assert web.requests == []
    assert "? robots" in capsys.readouterr().out
    for _ in range(2):
        await why.why(web.url("/a"), as_json=False, ask=True)

    assert [seen.path for seen in web.requests] == ["/robots.txt"]
    assert "does not allow it (Disallow: /a)" in capsys.readouterr().out
