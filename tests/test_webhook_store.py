"""Webhooks in Redis: which events are queued, what a gap is, replays, and everything that people change."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from core.errors import NotFound
from core.keys import Keys
from core.outputs.io.event_subjects import SearchableText
from core.outputs.io.webhook_filler import FillResult, WebhookFiller
from core.outputs.io.webhook_store import WebhookStore
from core.outputs.webhook import QueueSizes, Webhook, WebhookStatus
from core.outputs.webhook_filter import InvalidWebhook, checked_filter
from core.store.connect import Client
from core.store.event_command import event
from core.store.event_stream import id_before

NOW = 1_800_000_000.0
URL = "http://127.0.0.1:9/hook"


@pytest.fixture
def store(redis: Client, keys: Keys) -> WebhookStore:
    return WebhookStore(redis, keys)


class Events:
    """Adds events, fills queues, and looks into them."""

    def __init__(self, client: Client, keys: Keys, most_pending: int = 10_000) -> None:
        self.client = client
        self.keys = keys
        self.store = WebhookStore(client, keys)
        self.filler = WebhookFiller(client, keys, most_pending)

    async def add(self, kind: str = "item.changed", **fields: str) -> str:
        return str(await self.client.execute_command(*event(self.keys, kind, **fields)))

    async def add_many(self, count: int) -> list[str]:
        return [await self.add(id=f"url_{number}") for number in range(count)]

    async def fill(self) -> FillResult:
        """Read until nothing is left."""
        result = await self.filler.fill(await self.store.changes(), NOW)
        while result.has_more:
            result = await self.filler.fill(await self.store.changes(), NOW)
        return result

    async def queued(self, webhook: Webhook, queue: str = "pending") -> list[dict[str, Any]]:
        """The messages in a queue, in order."""
        key = {"pending": self.keys.webhook_pending, "replay": self.keys.webhook_replay}[queue](webhook.id)
        return [fields for _, fields in cast(list[Any], await self.client.xrange(key))]

    async def ids(self, webhook: Webhook, queue: str = "pending") -> list[str]:
        return [one["event"] for one in await self.queued(webhook, queue)]


@pytest.fixture
def events(redis: Client, keys: Keys) -> Events:
    return Events(redis, keys)


# ── which events ──


async def test_from_now_on(events: Events, store: WebhookStore) -> None:
    """A new webhook gets what happens after it was added, in order, once."""
    await events.add_many(3)
    webhook = await store.add(URL, checked_filter(), NOW)
    ids = await events.add_many(3)
    await events.fill()
    await events.fill()

    assert await events.ids(webhook) == ids
    after = await store.require(webhook.id)
    assert (after.read_id, after.read_count) == (ids[-1], 6)
    assert await store.sizes([webhook.id]) == [QueueSizes(3, 0, 0)]


async def test_store_without_events(events: Events, store: WebhookStore) -> None:
    """The first event ever reaches a webhook that was there before it."""
    webhook = await store.add(URL, checked_filter(), NOW)
    await events.fill()
    only = await events.add("healed", id="url_a")
    await events.fill()

    assert await events.ids(webhook) == [only]


async def test_filters(events: Events, store: WebhookStore, redis: Client, keys: Keys) -> None:
    """Each webhook gets what it asked for: a type, a category, a domain, a saved search, all of them together."""
    await redis.hset(
        keys.item("url_news"), mapping={"sources": "rss", "articleUid": "u1", "displaySource": "https://n/1"}
    )
    article = {"title": "Grain prices rise", "clean_text": "Farmers are paid more.", "language": "en"}
    await redis.hset(keys.article("u1"), mapping={**article, "categories": "world,trade", "url": "https://n.org/1"})
    await redis.hset(keys.item("url_page"), mapping={"sources": "docs.site", "displaySource": "https://d.org/2"})
    await redis.hset(keys.document("url_page"), mapping={"title": "Set-up", "markdown": "Buy grain.", "language": "en"})
    filters = {
        "all": checked_filter(),
        "type": checked_filter(["article.stored"]),
        "category": checked_filter(categories=["trade"]),
        "other category": checked_filter(categories=["sport"]),
        "domain": checked_filter(domains=["docs"]),
        "search": checked_filter(search="grain price"),
        "one word": checked_filter(search="grain"),
        "all of them": checked_filter(["article.*"], ["world"], search="farmer"),
        "none": checked_filter(["article.*"], ["world"], search="fishermen"),
    }
    hooks = {name: await store.add(URL, wanted, NOW) for name, wanted in filters.items()}
    stored = await events.add("article.stored", uid="u1", id="url_news", url="https://n.org/1", category="world")
    changed = await events.add(id="url_page", source="https://d.org/2")
    ran = await events.add("run.finished", id="jb_1", domain="docs", status="succeeded")
    forgotten = await events.add("item.forgotten", id="url_gone")
    await events.fill()
    got = {name: await events.ids(hook) for name, hook in hooks.items()}

    assert got == {
        "all": [stored, changed, ran, forgotten],
        "type": [stored],
        "category": [stored, forgotten],
        "other category": [forgotten],
        "domain": [changed, ran, forgotten],
        "search": [stored, forgotten],
        "one word": [stored, changed, forgotten],
        "all of them": [stored],
        "none": [],
    }
    first, second, *_ = [json.loads(one["body"])["data"] for one in await events.queued(hooks["all"])]
    assert (first["title"], first["url"], first["categories"]) == (
        "Grain prices rise",
        "https://n.org/1",
        ["trade", "world"],
    )
    assert (second["title"], second["url"], second["domains"]) == ("Set-up", "https://d.org/2", ["docs"])


async def test_expired_article_reaches_its_category(
    events: Events, store: WebhookStore, redis: Client, keys: Keys
) -> None:
    """Its record no longer names the category; whoever keeps a copy is told all the same."""
    webhook = await store.add(URL, checked_filter(["item.gone"], ["world"]), NOW)
    await redis.hset(
        keys.item("url_a"), mapping={"sources": "rss", "articleCategories": "", "displaySource": "https://n/1"}
    )
    gone = await events.add("item.gone", id="url_a", deleted="true", reason="expired")
    await events.fill()

    assert await events.ids(webhook) == [gone]


@pytest.mark.parametrize(
    ("query", "language", "is_found"),
    [
        ("price", "en", True),
        ("PRICES grain", "en", True),
        ("grain wheat", "en", False),
        ("cafe", "en", True),
        ('"grain prices"', "en", True),
        ('"prices grain"', "en", False),
        ("rice", "en", False),
        ("prices", "", True),
        ("price", "", False),
        ("", "en", False),
        ("!!", "en", False),
    ],
)
def test_saved_search(query: str, language: str, is_found: bool) -> None:
    """All words, in any form where the language is known, whole words only, phrases as they stand."""
    text = SearchableText.of("Grain prices", "At the café they rose again.", language)

    assert text.has_all(query) is is_found


# ── gaps and limits ──


async def test_trimmed_events_are_counted_and_told(
    events: Events, store: WebhookStore, redis: Client, keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    """What the stream dropped before it was read is a message at its place, a count, and a line in the log."""
    webhook = await store.add(URL, checked_filter(["item.gone"]), NOW)
    first = await events.add("item.gone", id="url_a")
    await events.fill()
    ids = await events.add_many(10)
    await redis.xtrim(keys.events, maxlen=4, approximate=False)
    last = await events.add("item.gone", id="url_b")
    await events.fill()
    await events.fill()
    [one, gap, other] = await events.queued(webhook)
    after = await store.require(webhook.id)

    assert (one["event"], gap["type"], other["event"]) == (first, "webhook.gap", last)
    told = json.loads(gap["body"])["data"]
    assert (told["after_id"], told["before_id"], told["lost_events"]) == (first, ids[6], 6)
    assert (after.gaps, after.lost_events, after.gap_after) == (1, 6, first)
    assert after.read_count == 12
    assert f"trimmed before they were read → {webhook.id}" in caplog.text


async def test_trimming_what_was_read_is_no_gap(events: Events, store: WebhookStore, redis: Client, keys: Keys) -> None:
    """Exactly at the edge: everything read was trimmed, and nothing else."""
    webhook = await store.add(URL, checked_filter(), NOW)
    await events.add_many(5)
    await events.fill()
    await events.add_many(3)
    await redis.xtrim(keys.events, maxlen=3, approximate=False)
    await events.fill()

    assert (await store.require(webhook.id)).gaps == 0
    assert len(await events.ids(webhook)) == 8


async def test_deleted_stream_is_a_gap(events: Events, store: WebhookStore, redis: Client, keys: Keys) -> None:
    """Nobody knows how many events went with it; that some may have is told once, and what comes next is delivered."""
    webhook = await store.add(URL, checked_filter(), NOW)
    await events.add_many(2)
    await events.fill()
    await redis.delete(keys.events)
    await events.fill()
    new = await events.add("healed", id="url_a")
    await events.fill()
    queued = await events.queued(webhook)

    assert [one["type"] for one in queued] == ["item.changed", "item.changed", "webhook.gap", "healed"]
    assert queued[-1]["event"] == new


async def test_full_queue_waits_in_the_stream(redis: Client, keys: Keys, store: WebhookStore) -> None:
    """At the limit no more is taken in; others are not held up, and nothing is lost while the stream has it."""
    events = Events(redis, keys, most_pending=1)
    full = await store.add(URL, checked_filter(), NOW)
    await events.add_many(2)
    await events.fill()
    choosy = await store.add(URL, checked_filter(["healed"]), NOW)
    later = await events.add_many(2)
    healed = await events.add("healed", id="url_a")
    await events.fill()

    assert len(await events.ids(full)) == 2
    assert await events.ids(choosy) == [healed]
    await redis.delete(keys.webhook_pending(full.id))
    again = Events(redis, keys, most_pending=1)
    await again.fill()
    assert await again.ids(full) == [*later, healed]


async def test_two_readers_queue_everything_once(redis: Client, keys: Keys, store: WebhookStore) -> None:
    """Whoever comes second with the same events is refused, and reads on from where the first one is."""
    webhook = await store.add(URL, checked_filter(), NOW)
    one, other = Events(redis, keys), Events(redis, keys)
    await one.fill()
    await other.fill()
    ids = []
    for reader in (one, other, one, one, other):
        ids += await reader.add_many(3)
        await one.fill()
        await other.fill()

    assert await one.ids(webhook) == ids


async def test_many_events_are_read_in_batches(events: Events, store: WebhookStore, redis: Client, keys: Keys) -> None:
    """More than a batch arrives whole and in order."""
    webhook = await store.add(URL, checked_filter(), NOW)
    pipe = redis.pipeline(transaction=False)
    for number in range(1_200):
        pipe.execute_command(*event(keys, "item.changed", id=f"url_{number}"))
    ids = await pipe.execute()
    await events.fill()

    assert await events.ids(webhook) == ids


# ── replay, skip, dead letters ──


async def test_replay_ends_where_the_queue_begins(
    events: Events, store: WebhookStore, redis: Client, keys: Keys
) -> None:
    """From the first event that is asked for, included, to the last one before what waits; once."""
    webhook = await store.add(URL, checked_filter(["item.changed"]), NOW)
    ids = await events.add_many(6)
    await events.fill()
    rows = cast(list[Any], await redis.xrange(keys.webhook_pending(webhook.id), count=4))
    await redis.xdel(keys.webhook_pending(webhook.id), *(row[0] for row in rows))
    first = await store.replay_from(webhook.id, ids[1])
    await events.fill()
    await events.fill()
    after = await store.require(webhook.id)

    assert first == ids[1]
    assert await events.ids(webhook, "replay") == ids[1:4]
    assert await events.ids(webhook) == ids[4:]
    assert after.replay_after == ""


async def test_replay_with_an_empty_queue(events: Events, store: WebhookStore, redis: Client, keys: Keys) -> None:
    """Everything that was read comes again; what comes meanwhile is queued as usual."""
    webhook = await store.add(URL, checked_filter(), NOW)
    ids = await events.add_many(3)
    await events.fill()
    await redis.delete(keys.webhook_pending(webhook.id))
    first = await store.replay_from(webhook.id, "0-1")
    new = await events.add("healed", id="url_a")
    await events.fill()

    assert first == ids[0]
    assert await events.ids(webhook, "replay") == ids
    assert await events.ids(webhook) == [new]


async def test_replay_of_the_future_is_empty(events: Events, store: WebhookStore) -> None:
    """An id that is not there yet replays nothing and is over at once."""
    webhook = await store.add(URL, checked_filter(), NOW)
    await events.add_many(2)
    await events.fill()
    await store.replay_from(webhook.id, "99999999999999-0")
    await events.fill()

    assert await events.ids(webhook, "replay") == []
    assert (await store.require(webhook.id)).replay_after == ""


async def test_replay_needs_an_id(store: WebhookStore) -> None:
    """What is no id is refused with an example."""
    webhook = await store.add(URL, checked_filter(), NOW)
    with pytest.raises(InvalidWebhook, match="1763337600000-0"):
        await store.replay_from(webhook.id, "yesterday")


async def test_skip_and_replay_dead(events: Events, store: WebhookStore) -> None:
    """A skipped event is a dead letter; dead letters come before what waits."""
    webhook = await store.add(URL, checked_filter(), NOW)
    ids = await events.add_many(3)
    await events.fill()
    skipped = [await store.skip(webhook.id, NOW) for _ in range(2)]
    letters = await store.dead_letters(webhook.id, 10)
    moved = await store.replay_dead(webhook.id)

    assert skipped == ids[:2]
    assert [one.event_id for one in letters] == [ids[1], ids[0]]
    assert (letters[0].reason, letters[0].given_up_ts) == ("Skipped by hand.", NOW)
    assert moved == 2
    assert await events.ids(webhook, "replay") == ids[:2]
    assert await events.ids(webhook) == ids[2:]
    assert await store.replay_dead(webhook.id) == 0
    await store.skip(webhook.id, NOW)
    await store.skip(webhook.id, NOW)
    await store.skip(webhook.id, NOW)
    assert await store.skip(webhook.id, NOW) == ""
    assert (await store.require(webhook.id)).dead == 5


# ── changes ──


async def test_pause_resume_rotate(store: WebhookStore) -> None:
    """Each change is seen by whoever looks at the list alone; resume makes the next attempt due."""
    webhook = await store.add(URL, checked_filter(), NOW)
    seen = [(await store.changes())[webhook.id]]
    paused = await store.pause(webhook.id)
    seen.append((await store.changes())[webhook.id])
    resumed = await store.resume(webhook.id)
    seen.append((await store.changes())[webhook.id])
    rotated = await store.rotate(webhook.id, NOW)
    seen.append((await store.changes())[webhook.id])

    assert (paused.status, resumed.status) == (WebhookStatus.PAUSED, WebhookStatus.ACTIVE)
    assert len(set(seen)) == 4
    assert rotated.secret != webhook.secret
    assert rotated.secrets_at(NOW + 86_399) == (rotated.secret, webhook.secret)
    assert rotated.secrets_at(NOW + 86_400) == (rotated.secret,)


async def test_paused_collects_and_disabled_does_not(
    events: Events, store: WebhookStore, redis: Client, keys: Keys
) -> None:
    """A paused webhook has its events waiting; a disabled one reads on from where it was when it is resumed."""
    paused, disabled = await store.add(URL, checked_filter(), NOW), await store.add(URL, checked_filter(), NOW)
    await store.pause(paused.id)
    await redis.hset(keys.webhook(disabled.id), "status", "disabled")
    ids = await events.add_many(2)
    await events.fill()

    assert (await events.ids(paused), await events.ids(disabled)) == (ids, [])
    await store.resume(disabled.id)
    await events.fill()
    assert await events.ids(disabled) == ids


async def test_nothing_is_left_of_a_removed_webhook(events: Events, store: WebhookStore, redis: Client) -> None:
    """All its keys go, and nothing that was under way brings one back."""
    webhook = await store.add(URL, checked_filter(), NOW)
    await events.add_many(2)
    await events.fill()
    await store.skip(webhook.id, NOW)
    stale = dict(await store.changes())
    await store.remove(webhook.id)
    await events.add_many(1)
    await events.filler.fill(stale, NOW)

    assert [key async for key in redis.scan_iter("*webhook*")] == []
    for act in (store.require, store.pause, store.resume, store.remove, store.replay_dead):
        with pytest.raises(NotFound, match="There is no webhook"):
            await act(webhook.id)
    with pytest.raises(NotFound):
        await store.skip(webhook.id, NOW)
    with pytest.raises(NotFound):
        await store.replay_from(webhook.id, "1-0")


async def test_number_of_webhooks_is_limited(store: WebhookStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """One too many is refused with a sentence."""
    monkeypatch.setattr("core.outputs.io.webhook_store.MOST_WEBHOOKS", 1)
    await store.add(URL, checked_filter(), NOW)
    with pytest.raises(InvalidWebhook, match="Remove one first"):
        await store.add(URL, checked_filter(), NOW)


@pytest.mark.parametrize(
    ("event_id", "before"),
    [("5-3", "5-2"), ("5-0", f"4-{2**64 - 1}"), ("0-0", "0-0"), ("0-1", "0-0")],
)
def test_id_before(event_id: str, before: str) -> None:
    """The largest id below another."""
    assert id_before(event_id) == before
