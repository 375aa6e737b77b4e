"""The canonical fetcher under faults: crash points, lost replies, real kills. One clean run later nothing shows it."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from core.keys import Keys
from core.runtime.context import open_context
from core.secret_text import SecretStr
from core.settings import Settings
from core.store.connect import Client
from tests.faults import crash, state
from tests.faults.process import Worker
from tests.faults.proxy import Proxy
from tests.web import FakeWeb
from workers import canonical_fetcher

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
NOT_COMPARED = (*state.POLITENESS, "canonical_stats", "canonical_last_run", "events")
"""Counters tell how often we looked, and a run that follows a crash looks again; events are checked on their own."""
PARAGRAPH = "<p>" + "The warden of the lower lock said the water had come up a hand's breadth since noon. " * 3 + "</p>"


@dataclass
class Press:
    """Pages of every kind, and the links to them."""

    settings: Settings
    web: FakeWeb
    client: Client
    keys: Keys

    async def fill(self) -> None:
        """An empty store with link sets that somebody filled."""
        await self.client.flushall()
        paths = ["/a", "/a/", "/same", "/moved", "/down", "/missing", "/b"]
        await self.client.sadd(self.keys.category_links("world"), *map(self.web.url, paths), "mailto:x@y")
        await self.client.sadd(self.keys.category_links("tech"), self.web.url("/a"), self.web.url("/c"))

    async def run(self, redis_url: str = "") -> None:
        url = {"redis_url": SecretStr(redis_url)} if redis_url else {}
        async with open_context(self.settings.model_copy(update=url)) as context:
            await canonical_fetcher.run_once(context, 60)

    async def look(self) -> dict[str, Any]:
        """The store with times masked."""
        dump = state.dump(await state.look(self.client, self.keys), without=NOT_COMPARED)
        return {key: (kind, hours, _masked(content)) for key, (kind, hours, content) in dump.items()}

    async def events(self) -> list[str]:
        told = [fields for _, fields in await self.client.xrange(self.keys.events)]
        return sorted(fields["uid"] for fields in told if fields["type"] != "run.finished")

    async def sums(self) -> tuple[int, int, int]:
        """How far the counters are from adding up, and how often an article was counted."""
        told = {k: int(v) for k, v in (await self.client.hgetall(self.keys.canonical_stats)).items()}
        ends = sum(told.get(end, 0) for end in ("stored", "failed", "retry", "alias", "duplicate", "deferred"))
        found = told.get("found", 0) - told.get("new", 0) - told.get("known", 0) - told.get("rejected", 0)
        return found, told.get("new", 0) - ends, told.get("stored", 0) + told.get("duplicate", 0)

    async def end_leases(self) -> None:
        await state.let_leases_end(self.client, self.keys)


def _masked(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: ISO.sub("…", value) if isinstance(value, str) else value for name, value in content.items()}
    return content


def page(title: str, text: str = "") -> str:
    return (
        f"<html lang=en><head><title>{title}</title></head><body><article><h1>{title}</h1>"
        f"{PARAGRAPH * 2}<p>{text}</p></article></body></html>"
    )


@pytest.fixture
async def press(settings: Settings, redis: Client, keys: Keys, in_step: None) -> AsyncIterator[Press]:
    async with FakeWeb() as web:
        web.page("/a", page("A"))
        web.page("/a/", page("A"))
        web.page("/same", page("A"))
        web.page("/b", page("B", "Something else happened by the mill, and nobody saw it coming until the very end."))
        web.page("/c", page("C", "A third thing happened, and everybody by the mill had seen it coming for weeks."))
        web.redirect("/moved", "/a", 301)
        web.page("/down", "later", status=503)
        # One at a time, so that the n-th command is the same in every run.
        one_by_one = {"fetch_allowed_hosts": ("127.0.0.1",), "fetch_host_parallel": 1, "robots_respect": False}
        yield Press(settings.model_copy(update=one_by_one), web, redis, keys)


async def test_crash_before_every_command_then_one_clean_run(
    press: Press, full: bool, record_property: Callable[[str, object], None]
) -> None:
    """Nothing lost, nothing half-indexed, no article counted or announced twice; only the leases end in between."""
    await press.fill()
    await press.run()
    undisturbed, announced, points = await press.look(), await press.events(), 0
    for point in crash.every_point(1 if full else 7):
        await press.fill()
        with point:
            await press.run()
        if point.is_dead:
            await press.end_leases()
            await press.run()

        assert state.difference(undisturbed, await press.look()) == "", point
        assert await press.events() == announced, point
        assert await press.sums() == (0, 0, 4), point
        points += point.is_dead
    record_property("crash_points", points)

    assert points > (50 if full else 7)


async def test_reply_of_every_command_lost_once(press: Press, proxy: Proxy, at_once: None, full: bool) -> None:
    """The server does it, we never hear of it, redis-py asks again: the end is the same, counters included."""
    await press.fill()
    await press.run()
    undisturbed, announced, number = await press.look(), await press.events(), 0
    while number == 0 or proxy.dropped:
        number += 1 if full or not number else 7
        await press.fill()
        proxy.count_from_here()
        proxy.drop_reply(number)
        await press.run(proxy.url)

        lost = f"reply {number} lost: {proxy.dropped}"
        assert state.difference(undisturbed, await press.look()) == "", lost
        assert await press.events() == announced, lost
        assert await press.sums() == (0, 0, 4), lost

    assert number > 50


async def test_killed_at_random_moments(press: Press, tmp_path: Any, full: bool) -> None:
    """kill -9 of the real process, again and again: one clean run later the store is as if nothing had happened."""
    await press.fill()
    await press.run()
    undisturbed, dice, killed = await press.look(), random.Random(4), 0
    url = press.settings.redis_url
    assert url
    for _ in range(200 if full else 3):
        await press.fill()
        environment = {"FETCH_ALLOWED_HOSTS": "127.0.0.1", "FETCH_HOST_GAP_SECONDS": "0", "FETCH_HOST_PARALLEL": "1"}
        command = ("workers.canonical_fetcher",)
        asked = len(press.web.requests) + dice.randint(1, 8)
        with Worker(tmp_path, url.get_secret_value(), *command, ROBOTS_RESPECT="false", **environment) as fetcher:
            await fetcher.until(lambda: len(press.web.requests) >= asked)  # noqa: B023
            fetcher.kill()
            killed += 1
        await press.end_leases()
        await press.run()

        assert state.difference(undisturbed, await press.look()) == ""

    assert killed == (200 if full else 3)
