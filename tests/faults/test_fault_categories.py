"""Renaming or dropping a category dies before its Redis commands; done again, or gone on with, nothing shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import redis.asyncio as redis

from core.feeds.io.category_changes import CategoryChanges
from core.feeds.io.link_store import Ttls
from core.runtime.context import Context
from core.store import connect
from tests.faults import crash, state
from tests.two_category_store import NEW, OLD, Newspaper
from tests.web import FakeWeb

LEFT_OUT = (*state.POLITENESS, "category_changes", "crashes", "events")


@pytest.fixture
async def raw(context: Context) -> AsyncIterator[redis.Redis]:
    async with redis.Redis.from_url(connect.url_of(context.settings)) as client:
        yield client


@asynccontextmanager
async def changes(context: Context) -> AsyncIterator[CategoryChanges]:
    """With a client of its own, which may die."""
    async with connect.open_store(context.settings) as client:
        yield CategoryChanges(client, context.keys, Ttls.of(context.settings))


async def events(context: Context) -> Counter[tuple[str, str]]:
    """What was published, in whatever order."""
    published = [fields for _, fields in await context.client.xrange(context.keys.events)]
    return Counter((one["type"], one["id"]) for one in published)


async def let_leases_end(context: Context) -> None:
    """As if minutes had passed, also in the records, which say for people until when they are leased."""
    await state.let_leases_end(context.client, context.keys)
    async for key in context.client.scan_iter(context.keys.item("*")):
        await context.client.hset(key, "lockedUntil", "")


@pytest.fixture
async def paper(context: Context, web: FakeWeb) -> Newspaper:
    return await Newspaper.print(context, web)


@pytest.mark.parametrize("to", [NEW, ""], ids=["rename", "drop"])
@pytest.mark.parametrize("by_hand", [True, False], ids=["the command again", "the ingestor goes on"])
async def test_crash_before_every_command_then_one_more_run(
    paper: Newspaper,
    raw: redis.Redis,
    full: bool,
    to: str,
    by_hand: bool,
    record_property: Callable[[str, object], None],
) -> None:
    """Whatever the command before which it died, in the end everything is where an undisturbed change puts it."""

    async def change() -> None:
        async with changes(context) as made:
            await (made.rename(OLD, to) if to else made.drop(OLD))

    async def go_on() -> None:
        # Died before anything was written down, nobody but the person knows that it was wanted.
        if by_hand or not await context.client.exists(context.keys.category_changes):
            await change()
            return
        async with changes(context) as made:
            await made.finish_pending(await connect.now(context.client))

    context, before, points = paper.context, await state.save(raw), 0
    await change()
    undisturbed = state.dump(await state.look(context.client, context.keys), without=LEFT_OUT)
    published = await events(context)
    for point in crash.every_point(1 if full else 11):
        await state.restore(raw, before)
        with point:
            await change()
        if point.is_dead:
            await let_leases_end(context)
            await go_on()
        ended = state.dump(await state.look(context.client, context.keys), without=LEFT_OUT)

        assert state.difference(undisturbed, ended) == "", point
        assert await events(context) == published, point
        assert await paper.traces(OLD) == [], point
        points += point.is_dead
    record_property("crash_points", points)

    assert points > (60 if full else 5)
