"""One searcher for all queries of a process: opened at the first search, then kept, following the replica.

The replica is brought up to date by a task of its own: a build that takes longer than a request may last goes on after
it. Meanwhile the replica is searched as far as it is; every hit is checked against Redis anyway.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from redis.exceptions import RedisError

from core.errors import FreshetError
from core.keys import Keys
from core.search.models import Query, SearchResponse
from core.settings import Settings
from core.store import cancellation, connect
from core.store.connect import Client

if TYPE_CHECKING:
    from core.search.io.searcher import Searcher

log = logging.getLogger("search")

PATIENCE_SECONDS = 10.0
"""How long a query waits for the replica before it is searched as it is."""
FOLLOW_SECONDS = 15.0
"""How often it is brought up to date without a query, so that no query has to wait for much."""


class SharedSearcher:
    """Answers queries of several tasks at once."""

    def __init__(
        self, settings: Settings, client: Client, keys: Keys, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        self._settings = settings
        self._client = client
        self._keys = keys
        self._patience_seconds = patience_seconds
        self._opening = asyncio.Lock()
        self._searcher: Searcher | None = None
        self._stack = AsyncExitStack()
        self._catching_up: asyncio.Task[int] | None = None
        self._following: asyncio.Task[None] | None = None

    async def search(self, query: Query) -> SearchResponse:
        """Search; where the first query cannot open the replica, the next one tries again."""
        searcher = self._searcher or await self._open()
        is_current = await self._catch_up(searcher)
        return await searcher.search(query, await connect.now(self._client), should_follow=is_current)

    async def aclose(self) -> None:
        """Stop following, and close the replica and the embedder."""
        tasks = [task for task in (self._following, self._catching_up) if task]
        await cancellation.cancel_and_wait(*tasks)
        await self._stack.aclose()

    async def _open(self) -> Searcher:
        # Not before a search is asked for: numpy and the index are most of what a process of ours imports.
        from core.search.io.searcher import open_searcher

        async with self._opening:
            if self._searcher is None:
                opened = open_searcher(self._settings, self._client, self._keys)
                self._searcher = await self._stack.enter_async_context(opened)
                self._following = asyncio.create_task(self._follow_for_ever(self._searcher))
            return self._searcher

    async def _catch_up(self, searcher: Searcher) -> bool:
        """Bring the replica up to date; False: that takes longer than a query should, and goes on."""
        if self._catching_up is None or self._catching_up.done():
            self._catching_up = asyncio.create_task(searcher.follower.catch_up())
        try:
            await asyncio.wait_for(asyncio.shield(self._catching_up), self._patience_seconds)
        except TimeoutError:
            if not self._catching_up.done():
                return False
            self._catching_up.result()  # raises a timeout of the server's; none if it ended at this very moment
        return True

    async def _follow_for_ever(self, searcher: Searcher) -> None:
        while True:
            await asyncio.sleep(FOLLOW_SECONDS)
            try:
                await self._catch_up(searcher)
            except (FreshetError, RedisError, OSError) as error:  # the next query meets it too, and reports it
                log.debug("⚠️ The replica is not followed: %s", error)
