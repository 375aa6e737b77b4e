"""`nextCrawlAt` says what the due set says, however a visit ended."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime

import pytest

from core.models import Ref
from core.registry.io.batch_visitor import Visitor
from core.registry.io.due import HOLD_SECONDS
from core.registry.io.registrar import Listing, item_id_of
from core.registry.record import URLS_SOURCE
from core.runtime.context import Context
from core.settings import Settings
from core.sources.io.open_sources import OpenSources
from core.store import connect
from core.store.clock import ServerClock
from core.store.connect import Client
from tests.crawled_site import crawl_context
from tests.site import html
from tests.web import FakeWeb

DEAD = [f"127.0.9.{n}" for n in range(1, 8)]


@pytest.fixture
async def context(settings: Settings, redis: Client) -> AsyncIterator[Context]:
    async with crawl_context(settings) as opened:
        yield opened


async def register(context: Context, *urls: str, **listing: object) -> list[str]:
    refs = [Ref(url) for url in urls]
    await context.registrar.register(refs, Listing(URLS_SOURCE, **listing), await connect.now(context.client))  # type: ignore[arg-type]
    return [item_id_of(ref) for ref in refs]


async def visit(context: Context, item_ids: list[str], *, is_over: bool = False) -> None:
    """As a job does: picked, held, visited."""
    now = await connect.now(context.client)
    await context.due.pick(URLS_SOURCE, now, 100, HOLD_SECONDS)
    visitor = Visitor(context, await ServerClock.ask(context.client), OpenSources(context, now))
    await visitor.visit_many(item_ids, picked_ts=now, via=URLS_SOURCE, is_over=lambda: is_over)


async def make_due(context: Context, item_ids: list[str], **more: bool) -> None:
    now = await connect.now(context.client)
    await context.due.make_due(item_ids, now, **more)  # type: ignore[arg-type]


async def both(context: Context, item_id: str) -> tuple[int, int]:
    """The time in the due set and that in the record, in whole seconds; -1: none."""
    score = await context.client.zscore(context.keys.due(URLS_SOURCE), item_id)
    said = await context.client.hget(context.keys.item(item_id), "nextCrawlAt")
    return -1 if score is None else int(score), int(datetime.fromisoformat(said).timestamp()) if said else -1


async def agreed(context: Context, item_id: str) -> int:
    """Both say the same, and this is what."""
    score, said = await both(context, item_id)
    assert score == said
    return score


@pytest.mark.parametrize("status", [200, 404, 410, 403, 451, 500, 204])
async def test_after_an_answer(context: Context, web: FakeWeb, status: int) -> None:
    """Changed, missing, gone, forbidden, broken, empty."""
    web.page("/a", html("A", "Some text about a."), status=status)
    item_ids = await register(context, web.url("/a"))
    await visit(context, item_ids)

    assert await agreed(context, item_ids[0]) > await connect.now(context.client)


async def test_after_an_unchanged_page(context: Context, web: FakeWeb) -> None:
    """304 on the second visit."""
    web.page("/a", html("A", "Some text about a."), etag='"1"')
    item_ids = await register(context, web.url("/a"))
    await visit(context, item_ids)
    await make_due(context, item_ids)
    assert await agreed(context, item_ids[0]) <= await connect.now(context.client)
    await visit(context, item_ids)

    assert await agreed(context, item_ids[0]) > await connect.now(context.client)
    assert await context.client.hget(context.keys.item(item_ids[0]), "httpStatusCode") == "304"


async def test_after_a_server_asked_for_patience(context: Context, web: FakeWeb) -> None:
    """503 with Retry-After is an error with a time; its neighbour is deferred by the same gate, without one."""
    web.retry_after("/a", 503, "5000")
    web.page("/b", html("B", "Some text about b."))
    first = await register(context, web.url("/a"))
    await visit(context, first)
    second = await register(context, web.url("/b"))
    await visit(context, second)
    now = await connect.now(context.client)

    assert len(web.asked("/b")) == 0
    for item_id in (*first, *second):
        assert await agreed(context, item_id) > now + 4_000


async def test_after_our_own_network_was_down(context: Context, web: FakeWeb) -> None:
    """Nobody is blamed; everybody is due in a minute, and says so."""
    item_ids = await register(context, *(f"http://{host}:{web.port}/" for host in DEAD))
    await visit(context, item_ids)
    now = await connect.now(context.client)

    for item_id in item_ids:
        assert await agreed(context, item_id) < now + HOLD_SECONDS / 2


async def test_after_the_time_was_over(context: Context, web: FakeWeb) -> None:
    """What the job did not reach is due at once, not after the hold."""
    item_ids = await register(context, *(web.url(f"/{n}") for n in range(3)))
    await visit(context, item_ids, is_over=True)

    for item_id in item_ids:
        assert await agreed(context, item_id) <= await connect.now(context.client)
    assert web.paths == []


async def test_after_its_readers_died(context: Context, web: FakeWeb) -> None:
    """Parked: not due, and no time."""
    item_ids = await register(context, web.url("/a"))
    await context.client.set(context.keys.crashes(item_ids[0]), 3)
    await visit(context, item_ids)

    assert await agreed(context, item_ids[0]) == -1


@pytest.mark.parametrize("force", [True, False])
async def test_after_somebody_asked_for_it(context: Context, web: FakeWeb, force: bool) -> None:
    """Due now, also when it was just picked for a job that was lost; what was due already keeps its time."""
    web.page("/a", html("A", "Some text about a."))
    item_ids = await register(context, web.url("/a"))
    first = await agreed(context, item_ids[0])
    await make_due(context, item_ids, force=force)
    assert await agreed(context, item_ids[0]) == first
    await context.due.pick(URLS_SOURCE, await connect.now(context.client), 100, HOLD_SECONDS)
    await make_due(context, item_ids, force=force)

    assert await agreed(context, item_ids[0]) <= await connect.now(context.client)


async def test_after_a_listing_made_it_due(context: Context, web: FakeWeb) -> None:
    """Listed anew by force, or with another version: due now, and the record says so."""
    web.page("/a", html("A", "Some text about a."))
    item_ids = await register(context, web.url("/a"))
    await visit(context, item_ids)
    await register(context, web.url("/a"), force=True, token="t")
    forced = await agreed(context, item_ids[0])
    await visit(context, item_ids)
    now = await connect.now(context.client)
    await context.registrar.register([Ref(web.url("/a"), version="2")], Listing(URLS_SOURCE), now)

    assert forced <= now
    assert await agreed(context, item_ids[0]) == int(now)
