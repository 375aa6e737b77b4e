"""Receivers that are slow, down, redirecting or lying, senders that are killed: nothing is lost, order is kept."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from itertools import groupby
from pathlib import Path

import pytest

from core.keys import Keys
from core.net.fetcher import Fetcher
from core.outputs.io.webhook_filler import WebhookFiller
from core.outputs.io.webhook_sender import WebhookSender
from core.outputs.io.webhook_service import open_service
from core.outputs.io.webhook_setup import send_test
from core.outputs.io.webhook_store import WebhookStore
from core.outputs.webhook import Webhook, WebhookStatus
from core.outputs.webhook_attempts import DeliveryEnd
from core.outputs.webhook_filter import checked_filter
from core.secret_text import SecretStr
from core.settings import Settings
from core.store import connect
from core.store.cancellation import cancel_and_wait
from core.store.connect import Client
from core.store.event_command import event
from core.store.leases import Leases
from tests import webhook_receiver as behaviour
from tests.faults import process
from tests.faults.process import Worker
from tests.faults.proxy import Proxy
from tests.webhook_receiver import Behaviour, Receiver

WORKER = "workers.webhooks"
NOW = 1_800_000_000.0
ALLOWED = ("127.0.0.0/8",)


class Deliveries:
    """A webhook on a receiver of loopback, and everything that delivers to it, by a clock of the test's own."""

    def __init__(self, client: Client, keys: Keys, receiver: Receiver, fetcher: Fetcher) -> None:
        self.client = client
        self.keys = keys
        self.receiver = receiver
        self.fetcher = fetcher
        self.store = WebhookStore(client, keys)
        self.now = NOW

    async def add(self, path: str = "/hook") -> Webhook:
        webhook = await self.store.add(self.receiver.url(path), checked_filter(), self.now)
        self.receiver.trust(path, webhook.secret)
        return webhook

    async def happen(self, count: int) -> list[str]:
        """Events in the stream and in all queues."""
        ids = await happen(self.client, self.keys, count)
        await WebhookFiller(self.client, self.keys, 1_000).fill(await self.store.changes(), self.now)
        return ids

    def sender(self, webhook: Webhook, leases: Leases | None = None) -> WebhookSender:
        leases = leases or Leases(self.client, self.keys)
        return WebhookSender(self.client, self.keys, self.fetcher, leases, webhook.id, dice=lambda: 0.5)

    async def drain(self, sender: WebhookSender) -> list[float]:
        """Deliver everything, however long it takes; return the waits, by the test's clock."""
        waits = []
        while (wait := await sender.step(self.now)) is not None:
            if wait:
                waits.append(round(wait, 3))
                self.now += wait
        return waits


async def happen(client: Client, keys: Keys, count: int) -> list[str]:
    pipe = client.pipeline(transaction=False)
    for number in range(count):
        pipe.execute_command(*event(keys, "item.changed", id=f"url_{number}"))
    return [str(event_id) for event_id in await pipe.execute()]


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as running:
        yield running


@pytest.fixture
async def deliveries(settings: Settings, redis: Client, keys: Keys) -> AsyncIterator[Deliveries]:
    """Whoever hangs is given up after half a second."""
    mine = settings.model_copy(update={"fetch_allowed_hosts": ALLOWED, "fetch_timeout_seconds": 0.5})
    async with Receiver(any_time=True) as running, Fetcher(mine, redis, keys) as fetcher:
        yield Deliveries(redis, keys, running, fetcher)


# ── receivers ──


@pytest.mark.parametrize(
    ("trouble", "status", "reason", "waits"),
    [
        (500, 500, "answered 500", [5, 300]),
        (400, 400, "answered 400", [5, 300]),
        (behaviour.with_headers(302, Location="/elsewhere"), 302, "redirects are not followed", [5, 300]),
        (behaviour.with_headers(429, Retry_After="60"), 429, "answered 429", [60, 300]),
        (behaviour.with_headers(503, Retry_After="7200"), 503, "answered 503", [7_200, 7_200]),
        (behaviour.with_body(500, 1_000_000), 500, "answered 500", [5, 300]),
        (behaviour.hang, 0, "took too long", [5, 300]),
        (behaviour.close, 0, "broke off", [5, 300]),
    ],
    ids=["500", "400", "redirect", "429", "503", "large", "hang", "close"],
)
async def test_trouble_is_waited_out_in_order(
    deliveries: Deliveries, trouble: int | Behaviour, status: int, reason: str, waits: list[float]
) -> None:
    """Twice the first event meets trouble; it is tried again before the second is sent, and then all arrive."""
    webhook = await deliveries.add()
    deliveries.receiver.answers("/hook", trouble, trouble, 204)
    ids = await deliveries.happen(3)
    sender = deliveries.sender(webhook)
    await sender.step(deliveries.now)
    failed = await deliveries.store.require(webhook.id)
    waited = await deliveries.drain(sender)
    after = await deliveries.store.require(webhook.id)

    assert (failed.attempts, failed.last_http_status) == (1, status)
    assert reason in failed.last_error
    assert waited == waits
    assert deliveries.receiver.taken("/hook") == ids
    assert set(deliveries.receiver.requests) == {"/hook"}
    assert (after.delivered, after.attempts, after.last_error, after.delivered_id) == (3, 0, "", ids[-1])


async def test_receiver_that_is_down(deliveries: Deliveries) -> None:
    """Nobody listens; when it is back, everything that happened meanwhile arrives in order."""
    webhook = await deliveries.add()
    await deliveries.receiver.__aexit__()
    ids = await deliveries.happen(2)
    sender = deliveries.sender(webhook)
    await sender.step(deliveries.now)
    down = await deliveries.store.require(webhook.id)
    ids += await deliveries.happen(1)
    await deliveries.receiver.__aenter__()
    await deliveries.drain(sender)

    assert "does not accept connections" in down.last_error
    assert deliveries.receiver.taken("/hook") == ids


async def test_wrong_secret_ends_as_a_dead_letter(deliveries: Deliveries) -> None:
    """A receiver that refuses our signature for 75 hours: ten attempts, a dead letter, and the next event's turn."""
    webhook = await deliveries.add()
    [first, second] = await deliveries.happen(2)
    deliveries.receiver.trust("/hook", "whsec_" + "A" * 43 + "=")
    sender = deliveries.sender(webhook)
    began, attempts = deliveries.now, 0
    while not await deliveries.store.dead_letters(webhook.id, 1):
        wait = await sender.step(deliveries.now)
        assert wait is not None
        attempts += wait == 0.0
        deliveries.now += wait
    hours = (deliveries.now - began) / 3600
    [letter] = await deliveries.store.dead_letters(webhook.id, 10)
    deliveries.receiver.trust("/hook", webhook.secret)
    await deliveries.drain(sender)
    await deliveries.store.replay_dead(webhook.id)
    sender.read_again()
    await deliveries.drain(sender)

    assert (attempts, len(deliveries.receiver.requests)) == (10, 12)
    assert 75.0 <= hours < 76.0
    assert (letter.event_id, letter.http_status, letter.attempts) == (first, 401, 10)
    assert letter.reason == "The receiver answered 401."
    assert deliveries.receiver.taken("/hook") == [second, first]
    assert await deliveries.store.dead_letters(webhook.id, 1) == []


async def test_410_disables_until_resumed(deliveries: Deliveries) -> None:
    """Nothing more is sent; resumed, it goes on with the event that was refused."""
    webhook = await deliveries.add()
    deliveries.receiver.answers("/hook", 204, 410, 204)
    ids = await deliveries.happen(3)
    sender = deliveries.sender(webhook)
    await deliveries.drain(sender)
    disabled = await deliveries.store.require(webhook.id)
    taken = deliveries.receiver.taken("/hook")
    await deliveries.store.resume(webhook.id)
    await deliveries.drain(sender)

    assert (disabled.status, taken) == (WebhookStatus.DISABLED, ids[:1])
    assert "410" in disabled.status_reason
    assert deliveries.receiver.taken("/hook") == ids


async def test_answers_body_does_not_matter(deliveries: Deliveries) -> None:
    """A success is one, however large its body is."""
    webhook = await deliveries.add()
    deliveries.receiver.answers("/hook", behaviour.with_body(200, 1_000_000), behaviour.with_body(200, 10))
    ids = await deliveries.happen(3)

    assert await deliveries.drain(deliveries.sender(webhook)) == []
    assert deliveries.receiver.taken("/hook") == ids


async def test_private_addresses_need_permission(
    settings: Settings, redis: Client, keys: Keys, receiver: Receiver
) -> None:
    """Without an entry in FETCH_ALLOWED_HOSTS no connection is made, whoever added the webhook."""
    webhook = await WebhookStore(redis, keys).add(receiver.url("/hook"), checked_filter(), NOW)
    async with Fetcher(settings, redis, keys) as fetcher:
        attempt = await send_test(redis, keys, fetcher, webhook.id)

    assert (attempt.end, receiver.requests) == (DeliveryEnd.FAILED, [])
    assert "FETCH_ALLOWED_HOSTS" in attempt.reason


async def test_rotated_secret(deliveries: Deliveries) -> None:
    """For a day a receiver with either secret takes what is sent, then only one with the new one."""
    webhook = await deliveries.add()
    sender = deliveries.sender(webhook)
    rotated = await deliveries.store.rotate(webhook.id, deliveries.now)
    [first] = await deliveries.happen(1)
    await deliveries.drain(sender)
    deliveries.receiver.trust("/hook", rotated.secret)
    [second] = await deliveries.happen(1)
    await deliveries.drain(sender)
    deliveries.now += 86_400
    [third] = await deliveries.happen(1)
    await deliveries.drain(sender)

    assert deliveries.receiver.taken("/hook") == [first, second, third]


async def test_changes_take_effect_between_two_messages(deliveries: Deliveries) -> None:
    """A pause and a replay are seen at the next message: what is replayed comes before what waits."""
    webhook = await deliveries.add()
    ids = await deliveries.happen(4)
    sender = deliveries.sender(webhook)
    await sender.step(deliveries.now)
    await deliveries.store.replay_from(webhook.id, ids[0])
    await sender.step(deliveries.now)
    waiting = await sender.step(deliveries.now)
    await deliveries.happen(0)
    sender.read_again()
    await deliveries.drain(sender)

    assert waiting is None  # until the replay is queued
    assert deliveries.receiver.taken("/hook") == [ids[0], ids[1], ids[0], ids[2], ids[3]]


async def test_removed_in_mid_delivery(deliveries: Deliveries) -> None:
    """The answer to a removed webhook brings nothing back."""
    webhook = await deliveries.add()
    await deliveries.happen(2)
    store = deliveries.store

    async def remove(_: object) -> object:
        await store.remove(webhook.id)
        return behaviour.web.Response(status=204)

    deliveries.receiver.answers("/hook", remove)  # type: ignore[arg-type]
    await deliveries.drain(deliveries.sender(webhook))

    assert len(deliveries.receiver.requests) == 1
    assert [key async for key in deliveries.client.scan_iter("webhook*")] == []


# ── senders ──


async def test_two_senders_never_interleave(deliveries: Deliveries) -> None:
    """The second waits for the lease; a first one that comes back too late is refused and stops."""
    webhook = await deliveries.add()
    ids = await deliveries.happen(4)
    one, other = deliveries.sender(webhook), deliveries.sender(webhook)
    await one.step(deliveries.now)
    refused = await other.step(deliveries.now)
    await deliveries.client.delete(deliveries.keys.lease(f"webhook_{webhook.id}"))
    await other.step(deliveries.now)
    late = await one.step(deliveries.now)
    locked_out = await one.step(deliveries.now)
    await deliveries.drain(other)
    after = await deliveries.store.require(webhook.id)

    assert refused == locked_out == 5.0
    assert late == 0.0
    taken = deliveries.receiver.taken("/hook")
    assert [event_id for event_id, _ in groupby(taken)] == ids
    assert after.delivered == 4


@contextlib.asynccontextmanager
async def running(settings: Settings, client: Client, keys: Keys) -> AsyncIterator[None]:
    """A service for all webhooks, until the end of the block."""
    mine = settings.model_copy(update={"fetch_allowed_hosts": ALLOWED})
    async with open_service(mine, client, keys) as service:
        task = asyncio.create_task(service.run_forever())
        try:
            yield
        finally:
            await cancel_and_wait(task)


async def test_slow_receiver_holds_up_nobody(settings: Settings, redis: Client, keys: Keys, receiver: Receiver) -> None:
    """One receiver never answers; all others get everything, also one that was added meanwhile."""
    store, ids = WebhookStore(redis, keys), []
    names = [f"/quick{number}" for number in range(5)]
    hooks = {path: await store.add(receiver.url(path), checked_filter(), NOW) for path in ("/slow", *names)}
    for path, webhook in hooks.items():
        receiver.trust(path, webhook.secret)
    receiver.answers("/slow", behaviour.hang)
    async with running(settings, redis, keys):
        ids += await happen(redis, keys, 20)
        await process.until(lambda: "/slow" in receiver.requests)
        await process.until(lambda: all(receiver.taken(path) == ids for path in names))
        late = await store.add(receiver.url("/late"), checked_filter(), NOW)
        receiver.trust("/late", late.secret)
        more = await happen(redis, keys, 5)
        await process.until(lambda: all(receiver.taken(path) == ids + more for path in names))
        await process.until(lambda: receiver.taken("/late") == more)

    assert receiver.taken("/slow") == []
    [slow] = await store.sizes([hooks["/slow"].id])
    assert slow.waiting == 25


async def test_two_services_deliver_once(settings: Settings, redis: Client, keys: Keys, receiver: Receiver) -> None:
    """Both fill and both send; every event arrives once and in order."""
    store, ids = WebhookStore(redis, keys), []
    for path in ("/a", "/b", "/c"):
        receiver.trust(path, (await store.add(receiver.url(path), checked_filter(), NOW)).secret)
    async with running(settings, redis, keys), running(settings, redis, keys):
        for _ in range(5):
            ids.extend(await happen(redis, keys, 20))
            await process.until(lambda: bool(receiver.taken("/a")))
        await process.until(lambda: all(receiver.taken(path) == ids for path in ("/a", "/b", "/c")))


# ── processes ──


async def test_kill_9_at_any_moment_loses_nothing(
    redis: Client, keys: Keys, receiver: Receiver, proxy: Proxy, tmp_path: Path, full: bool
) -> None:
    """Killed between any two commands: every event arrives, in order; only the one under way may come twice."""
    store, paths = WebhookStore(redis, keys), ("/a", "/b")
    hooks = {path: await store.add(receiver.url(path), checked_filter(), NOW) for path in paths}
    for path, webhook in hooks.items():
        receiver.trust(path, webhook.secret)
    ids = await happen(redis, keys, 6)
    with Worker(tmp_path, proxy.url, WORKER, "--once") as whole:
        assert await whole.ended() == 0, whole.log
    commands, dice, kills = proxy.count, random.Random(7), 100 if full else 6
    for kill in range(kills):
        ids += await happen(redis, keys, 6)
        proxy.count_from_here()
        number = 1 + int((kill + dice.random()) * commands / kills)
        if kill % 2:
            proxy.hold(number)
        with Worker(tmp_path, proxy.url, WORKER, "--once") as victim:
            await process.until(lambda: proxy.count >= number or not victim.is_alive)  # noqa: B023
            victim.kill()
        proxy.let_go()
        await _let_leases_end(redis, keys)
    with Worker(tmp_path, proxy.url, WORKER, "--once") as last:
        assert await last.ended() == 0, last.log
    sizes = await store.sizes([webhook.id for webhook in hooks.values()])

    assert last.tracebacks == []
    for path in paths:
        taken = receiver.taken(path)
        assert [event_id for event_id, _ in groupby(taken)] == ids, path
        assert len(taken) <= len(ids) + kills
    assert [(one.waiting, one.dead) for one in sizes] == [(0, 0), (0, 0)]


async def _let_leases_end(redis: Client, keys: Keys) -> None:
    leases = [key async for key in redis.scan_iter(keys.pattern(keys.lease))]
    if leases:
        await redis.delete(*leases)


async def test_lost_replies(
    settings: Settings, redis: Client, keys: Keys, receiver: Receiver, proxy: Proxy, at_once: None, full: bool
) -> None:
    """Redis does as it is told and its answer is lost, at any command: each event arrives, and is counted once."""
    store = WebhookStore(redis, keys)
    webhook = await store.add(receiver.url("/a"), checked_filter(), NOW)
    receiver.trust("/a", webhook.secret)
    ids = await happen(redis, keys, 3)
    mine = settings.model_copy(update={"redis_url": SecretStr(proxy.url), "fetch_allowed_hosts": ALLOWED})
    await _once(mine, keys)
    commands = proxy.count
    for number in range(1, commands + 1, 1 if full else 3):
        ids += await happen(redis, keys, 3)
        proxy.count_from_here()
        proxy.drop_reply(number)
        await _once(mine, keys)
        await _let_leases_end(redis, keys)
    await _once(mine, keys)

    assert [event_id for event_id, _ in groupby(receiver.taken("/a"))] == ids
    assert (await store.require(webhook.id)).delivered == len(ids)


async def _once(settings: Settings, keys: Keys) -> None:
    client = connect.open_store(settings)
    try:
        async with open_service(settings, client, keys) as service:
            await service.run_once()
    finally:
        await client.aclose()


async def test_server_goes_away_and_comes_back(
    redis: Client, keys: Keys, receiver: Receiver, proxy: Proxy, tmp_path: Path
) -> None:
    """The sender says so, waits, and goes on; SIGTERM ends it at once and cleanly."""
    store = WebhookStore(redis, keys)
    webhook = await store.add(receiver.url("/a"), checked_filter(), NOW)
    receiver.trust("/a", webhook.secret)
    with Worker(tmp_path, proxy.url, WORKER) as worker:
        ids = await happen(redis, keys, 3)
        await worker.until(lambda: receiver.taken("/a") == ids)
        await proxy.off()
        await worker.until(lambda: bool(worker.lines("does not answer")))
        ids += await happen(redis, keys, 3)
        await proxy.on()
        await worker.until(lambda: [one for one, _ in groupby(receiver.taken("/a"))] == ids)
        code = await worker.stopped()

    assert (code, worker.tracebacks) == (0, [])


async def test_idle_without_webhooks(redis: Client, keys: Keys, proxy: Proxy, tmp_path: Path) -> None:
    """With no webhook the process asks Redis for nothing but the list of webhooks and its heartbeat."""
    with Worker(tmp_path, proxy.url, WORKER) as worker:
        await worker.until(lambda: len([one for one in proxy.commands if one == f"ZRANGE {keys.webhooks}"]) >= 3)
        names = {command.split()[0] for command in proxy.commands}
        code = await worker.stopped()

    assert code == 0
    assert names <= {"PING", "HGET", "HSET", "TIME", "ZADD", "ZREMRANGEBYSCORE", "ZRANGE", "EVAL"}, names
