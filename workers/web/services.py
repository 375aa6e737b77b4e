"""The services that handlers use: opened once, when Redis answers, and closed with the process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

from core.errors import StoreUnreachable
from core.keys import Keys
from core.runs.io.run_control import RunControl
from core.runtime.context import Context, build_context
from core.runtime.pipeline_monitor import PipelineMonitor
from core.runtime.process_beats import WEB, ProcessBeats
from core.runtime.store_monitor import StoreMonitor
from core.search.io.shared_searcher import SharedSearcher
from core.settings import Settings
from core.store import connect, redis_health
from core.store.cancellation import cancel_and_wait
from core.store.event_stream import EventStream
from core.value_class import value_class
from workers.web.events import EventFeed

FIRST_SECONDS = 1.0
"""The server begins to listen when Redis answers, or after this time without it."""
MOVED_SECONDS = 2.0
"""How often a process that waits for Redis looks where it is: the first `./scripts/up` may come later."""


@value_class
class Services:
    """The stores of this process, and what is shared between requests."""

    settings: Settings
    keys: Keys
    client: connect.Client
    context: Context
    events: EventFeed
    monitor: StoreMonitor
    pipeline: PipelineMonitor
    searcher: SharedSearcher
    run_control: RunControl


class ServiceOpener:
    """Opens the services in the background, so that the server answers, if only with 503, before Redis does."""

    def __init__(self, settings: Settings, *, is_web: bool = True) -> None:
        """`is_web`: beat as the HTTP API and follow the event stream, for its clients."""
        self._settings = settings
        self._is_web = is_web
        self._services: Services | None = None
        self._problem = ""
        self._task: asyncio.Task[None] | None = None

    def require(self) -> Services:
        """Return the services; raise StoreUnreachable while Redis does not answer."""
        if self._services is None:
            raise StoreUnreachable(self._problem or "Redis has not answered yet.")
        return self._services

    def let_streams_go(self) -> None:
        """Let all clients of event streams go: the server waits for their handlers."""
        if self._services:
            self._services.events.close()

    async def wait(self) -> None:
        """Wait until cancelled; raise what keeps the services from being opened at all, e.g. a newer schema."""
        assert self._task is not None
        await self._task

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Open the services as soon as Redis answers and close them at the end."""
        opened = asyncio.Event()
        self._task = asyncio.create_task(self._run(opened))
        waiting = asyncio.create_task(opened.wait())
        try:
            await asyncio.wait((self._task, waiting), timeout=FIRST_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            yield
        finally:
            await cancel_and_wait(self._task, waiting)

    async def _run(self, opened: asyncio.Event) -> None:
        """Open the services; again, if `./scripts/up` says meanwhile that its server is elsewhere."""
        while True:
            url = connect.url_of(self._settings)
            self._problem = redis_health.explain(ConnectionError(), url)
            opening, moving = asyncio.create_task(self._open(opened)), asyncio.create_task(self._until_moved(url))
            try:
                done, _ = await asyncio.wait((opening, moving), return_when=asyncio.FIRST_COMPLETED)
                if opening in done:
                    return opening.result()
            finally:
                await cancel_and_wait(opening, moving)

    async def _until_moved(self, url: str) -> None:
        while self._services or connect.url_of(self._settings) == url:  # noqa: ASYNC110 - a file sends no notice
            await asyncio.sleep(MOVED_SECONDS)

    async def _open(self, opened: asyncio.Event) -> None:
        async with (
            redis_health.open_when_ready(self._settings, once=False, should_warn=False) as (client, keys),
            build_context(self._settings, client, keys) as context,
        ):
            events = EventFeed(EventStream(client, keys))
            async with (
                AsyncExitStack() as stack,
                aclosing(StoreMonitor(self._settings, client, keys)) as monitor,
                aclosing(SharedSearcher(self._settings, client, keys)) as searcher,
            ):
                if self._is_web:
                    await stack.enter_async_context(events.running())
                    await stack.enter_async_context(ProcessBeats(client, keys).running(WEB))
                self._services = Services(
                    settings=self._settings,
                    keys=keys,
                    client=client,
                    context=context,
                    events=events,
                    monitor=monitor,
                    pipeline=PipelineMonitor(monitor, client, keys),
                    searcher=searcher,
                    run_control=RunControl(self._settings, client, keys),
                )
                opened.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    self._services = None
