"""Parse children killed by somebody else, in the middle of real runs: no article is lost, none is stored twice."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from core import ids, schedule
from core.errors import FailCode, FailDetail
from core.models import Failed
from core.registry import http_status_meanings
from core.runtime.context import Context, open_context
from core.runtime.parse_pool import MOST_CRASHES, ParsePool
from core.settings import Settings
from core.store.connect import Client
from tests.articles import add, article, run
from tests.web import FakeWeb
from tests.web_replies import Document, Exchange

pytestmark = pytest.mark.parse_children
PROCESSES = 2


class Killer:
    """Kills parse children at random moments, but over no body more often than the pool tries."""

    def __init__(self, pool: ParsePool, seed: int) -> None:
        self._pool = pool
        self._run = pool.run
        self._random = random.Random(seed)
        self._under_way: Counter[int] = Counter()
        """By call: how many kills may have hit it."""
        self._calls = 0
        self._victims: set[int] = set()
        self.kills = 0
        pool.run = self.run  # type: ignore[method-assign]

    async def run(self, task: str, request: object) -> Any:
        self._calls += 1
        call = self._calls
        # An idle child that was just killed may be taken before anyone notices.
        self._under_way[call] = len(self._victims.intersection(self._pool.pids))
        try:
            return await self._run(task, request)
        finally:
            del self._under_way[call]
            self.strike()

    def strike(self) -> None:
        """Maybe now."""
        pids = self._pool.pids
        at_work = list(self._under_way)[:PROCESSES]  # the others queue
        is_enough = any(self._under_way[call] >= MOST_CRASHES - 1 for call in at_work)
        if pids and not is_enough and self._random.random() < 0.3:
            victim = self._random.choice(pids)
            os.kill(victim, signal.SIGKILL)
            self._victims.add(victim)
            self._under_way.update(at_work)
            self.kills += 1


@pytest.fixture
async def context(settings: Settings, redis: Client) -> AsyncIterator[Context]:
    changes = {"fetch_allowed_hosts": ("127.0.0.0/8",), "fetch_concurrency": 3, "parse_processes": PROCESSES}
    async with open_context(settings.model_copy(update=changes)) as opened:
        yield opened


@pytest.mark.long
async def test_every_article_is_stored_once(context: Context, web: FakeWeb, full: bool) -> None:
    """Many pages while their parse children are killed again and again."""
    killer, count = Killer(context.pool, seed=11), 100 if full else 30
    links = [web.url(f"/{number}") for number in range(count)]
    for number in range(count):
        page = Document(article(f"Report {number}", text=f"Paragraph of {number}.").encode())

        async def reply(exchange: Exchange, page: Document = page) -> None:
            await page(exchange)
            killer.strike()

        web.on(f"/{number}", reply)
    await add(context, *links)

    counts = await run(context)

    assert killer.kills > 0
    assert (counts["stored"], counts["retry"], counts["failed"]) == (count, 0, 0)
    events = await context.client.xrange(context.keys.events)
    assert Counter(fields["type"] for _, fields in events) == {"article.stored": count, "run.finished": 1}
    for number, link in enumerate(links):
        found = await context.client.hgetall(context.keys.article(ids.article_uid(link)))
        assert f"Paragraph of {number}." in found["clean_text"]


def test_a_crash_is_tried_again_and_given_up_after_three() -> None:
    """Also where all tries of one visit were killed: the machine may be short of memory for a while."""
    crashed = Failed(FailCode.PARSE, FailDetail.CRASH, "The parser was killed.")

    assert http_status_meanings.is_transient(crashed)
    assert [schedule.link_retry_seconds(tries) is not None for tries in range(5)] == [True] * 3 + [False] * 2
