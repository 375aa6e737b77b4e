"""The overview, over real HTTP: numbers of the store, what needs a person and how to mend it."""

from __future__ import annotations

import re

from core import ids
from core.keys import Keys
from core.outputs.io.webhook_store import WebhookStore
from core.outputs.webhook_filter import EventFilter
from core.registry.io.metric_history_store import HistoryStore
from core.runs.run import RunKind
from core.runtime.context import Context
from core.runtime.process_beats import ProcessBeats
from core.runtime.queue_names import QueueName
from core.runtime.queue_worker import QueueWorker
from core.settings import Settings
from core.store import connect
from core.store.connect import Client
from tests import pipeline_scene as scene
from tests.api import ApiServer, api_server
from tests.articles import rss
from tests.form_client import PAGE, FormClient
from tests.test_web_health import commands_sent
from tests.two_category_store import Newspaper
from tests.web import FakeWeb
from workers.ingestor import run_cycle

TAGS = re.compile(r"<[^>]+>")
MOST_PAGE_BYTES = 60_000
"""Of the HTML alone; the files that it loads have 240 kB."""


async def overview(api: ApiServer) -> str:
    answer = await api.get("/", headers=PAGE)
    assert answer.status == 200
    return answer.text


def words(html: str, element: str) -> str:
    """The text of an element of the flow."""
    found = re.search(rf'id="{element}">(.*?)</li>', html, re.S)
    assert found, element
    return " ".join(TAGS.sub(" ", found[1]).split())


async def test_first_start_says_what_to_do(api: ApiServer) -> None:
    """Nothing there: two sentences with links, and no error."""
    html = await overview(api)

    assert "Nothing here yet" in html
    assert re.search(r'Add <a href="/feeds/add">a feed</a>.*Add <a href="/domains/add">a domain</a>', html, re.S)
    assert "sample newspaper" not in html
    assert html.count("Nothing is known yet") == 3
    assert words(html, "stop-chunks") == "Chunks 0"


async def test_the_sample_is_named(api: ApiServer, redis: Client, keys: Keys) -> None:
    """Whoever sees the sample newspaper is told that it is one, and how it goes."""
    await redis.sadd(keys.categories, "sample_news")
    await redis.zadd(keys.feeds_due, {"x": 0})
    html = await overview(api)

    assert "This is the sample newspaper" in html
    assert "Nothing here yet" not in html


async def test_numbers_of_a_newspaper(api: ApiServer, context: Context, web: FakeWeb) -> None:
    """Stations hold what is in the store; without a history the arrows count from the beginning."""
    await Newspaper.print(context, web)
    html = await overview(api)

    assert words(html, "stop-feeds").startswith("Feeds 2")
    assert words(html, "passed-feeds") == "5 new links 2 polls"
    assert words(html, "passed-links") == "4 stored 1 failed"
    assert words(html, "stop-articles") == "Articles 3"
    assert "since the beginning" in html


async def test_arrows_count_the_last_hour(api: ApiServer, redis: Client, keys: Keys) -> None:
    """The difference to the first entry within an hour; a counter that began anew counts as nothing."""
    now, store = await connect.now(redis), HistoryStore(redis, keys)
    await store.add(now - 7_200, {"links_new": 10, "stored": 1_000})
    await store.add(now - 3_000, {"links_new": 100, "stored": 2_000})
    await redis.hset(keys.ingest_stats, mapping={"links_new": 130, "polled": 7})
    await redis.hset(keys.canonical_stats, "stored", 5)
    html = await overview(api)

    assert words(html, "passed-feeds") == "30 new links 7 polls"
    assert words(html, "passed-links") == "0 stored"
    assert re.search(r"in the last 5\d min", html)


async def test_charts_of_a_day(api: ApiServer, redis: Client, keys: Keys) -> None:
    """Each chart has its data for the script, lines for those without, and a sentence; one look costs little."""
    now = await connect.now(redis)
    await scene.history(redis, keys, now)
    html = await overview(api)
    async with commands_sent(redis) as sent:
        again = await overview(api)

    assert re.findall(r'data-chart-in="plot-(\w+)"', html) == ["freshness", "articles", "visits"]
    assert html.count('class="lines"') == 3
    assert "95 % within 8 h" in html
    assert len(again) < MOST_PAGE_BYTES
    assert not sent.keys() & {"scan", "sscan", "hscan", "zscan", "keys", "info"}
    assert sent["xrange"] == 2


async def test_broken_feeds_are_named_as_text(api: ApiServer, redis: Client, keys: Keys) -> None:
    """How many, the last few with their reason, a link to all; whatever a title holds is text."""
    now = await connect.now(redis)
    for n in range(7):
        title = scene.HOSTILE if n == 0 else "\udc80" if n == 1 else f"News {n}"
        await scene.broken_feed(redis, keys, f"https://n{n}.example/feed?token=secret{n}", now - n, title, "<b>500</b>")
    html = await overview(api)

    assert "7 feeds are broken" in html
    assert html.count("Poll now") == 5
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert scene.HOSTILE not in html
    assert "<b>500" not in html
    assert f"/feeds/{ids.feed_id('https://n0.example/feed?token=secret0')}/poll" in html


async def test_nothing_needs_attention(api: ApiServer, redis: Client, keys: Keys, settings: Settings) -> None:
    """With all processes alive the page says so, and has no list."""
    await redis.zadd(keys.processes, {f"{name}@here:1": await connect.now(redis) for name in ("timer", "ingestor")})
    worker = QueueWorker(settings, list(QueueName))
    worker.register_birth()
    html = await overview(api)
    worker.teardown()
    await ProcessBeats(redis, keys).end("timer@here:1")
    after = await overview(api)

    assert "Nothing needs attention" in html
    assert "Needs attention" not in html
    assert "The timer has no heartbeat" in after
    assert "python -m workers.timer" in after


async def test_loss_guard_and_embedder(api: ApiServer, redis: Client, keys: Keys) -> None:
    """A stopped source leads to its domain; the embedder's pause ends with a button."""
    await scene.held_source(redis, keys)
    await redis.set(keys.embed_away, "The service does not answer.", ex=600)
    async with FormClient(api) as person:
        _, _, html = await person.ask("GET", "/")
        _, path, after = await person.submit("/", "/embed/resume")

    assert "The loss guard stopped docs.site" in html
    assert 'href="/domains/docs"' in html
    assert "40 of 50 items would be gone" in html
    assert "Nothing is embedded" in html
    assert (path, "Embedding is tried again" in after, "Nothing is embedded" in after) == ("/", True, False)
    assert not await redis.exists(keys.embed_away)


async def test_runs_show_their_progress(api: ApiServer, redis: Client, keys: Keys) -> None:
    """What runs, how far it is, and a button that pauses it."""
    now = await connect.now(redis)
    run_id = await scene.running(redis, keys, now, RunKind.INGEST, 40, scene.HOSTILE)
    html = await overview(api)

    assert f'href="/runs/{run_id}"' in html
    assert 'value="40"' in html
    assert f'action="/runs/{run_id}/pause"' in html
    assert scene.HOSTILE not in html


async def test_disabled_webhook_is_sent_again(api: ApiServer, redis: Client, keys: Keys) -> None:
    """A receiver that answered 410 is named without its secrets, and the button sends events to it again."""
    store = WebhookStore(redis, keys)
    webhook = await store.add("https://hooks.example/x?token=hunter2", EventFilter(), await connect.now(redis))
    await redis.hset(keys.webhook(webhook.id), mapping={"status": "disabled", "status_reason": "It answered 410 Gone."})
    async with FormClient(api) as person:
        _, _, html = await person.ask("GET", "/")
        _, _, after = await person.submit("/", f"/webhooks/{webhook.id}/resume")

    assert "A webhook is disabled" in html
    assert "It answered 410 Gone." in html
    assert "hunter2" not in html + after
    assert "A webhook is disabled" not in after
    assert (await store.require(webhook.id)).is_active


async def test_poll_now_mends_a_feed(context: Context, web: FakeWeb) -> None:
    """A feed that answers again is off the list after its button was pressed, and the page says what came."""
    web.on("/feed", 500)
    await context.subscriptions.add("world", web.url("/feed"))
    await run_cycle(context)
    web.page("/feed", rss(web.url("/a")))
    async with api_server(context.settings) as api, FormClient(api) as person:
        _, _, before = await person.ask("GET", "/")
        path = re.search(r'action="(/feeds/\w+/poll)"', before)
        assert path
        status, _, _ = await person.submit("/", path[1])
        after = await overview(api)

    assert "One feed is broken" in before
    assert status == 200
    assert "feed is broken" not in after
    assert words(after, "passed-feeds") == "1 new links 2 polls"
