"""Set options of feeds and hosts, by command or by file: interval, gap, parallel requests.

A command and each file keep their options apart: an import removes only what the same file set before, and what a
command set wins over what a file says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from core import ids
from core.errors import FeedFileError
from core.feeds.feed_health import FeedPace
from core.feeds.feed_state import FeedStatus
from core.feeds.feed_toml import FEED_OPTIONS, HOST_OPTIONS, FeedFile
from core.feeds.io.feed_store import FeedStore
from core.feeds.io.link_store import Ttls
from core.feeds.poll_decision import RETRY_AFTER, interval_reason
from core.keys import Keys
from core.net.pace_store import PaceStore
from core.settings import Settings
from core.store import connect
from core.store.connect import Client
from core.urls.pace import (
    ALL_HOSTS,
    COMMAND,
    NOTHING,
    HostPace,
    PaceOption,
    PaceScope,
    StoredPace,
    checked_option,
    hosts_of_url,
)


class FeedOptions:
    def __init__(self, client: Client, keys: Keys, settings: Settings) -> None:
        self._client = client
        self._paces = PaceStore(client, keys, settings)
        self._feeds = FeedStore(client, keys, Ttls.of(settings))

    async def set_for_feed(self, url: str, changes: Mapping[str, float | None]) -> PaceOption:
        """Change options of a feed, None removes one; return what holds for it now. FeedFileError if one is wrong."""
        fid = ids.feed_id(url)
        await self._change(PaceScope.FEED, fid, changes, FEED_OPTIONS, hosts_of_url(url))
        option = (await self._paces.read()).of_feed(fid)
        if option.interval_seconds is not None:
            await self._poll_sooner(url, option.interval_seconds)
        return option

    async def set_for_host(self, host: str, changes: Mapping[str, float | None]) -> PaceOption:
        """Change options of a host, None removes one; return what commands and files set for it now."""
        await self._change(PaceScope.HOST, host, changes, HOST_OPTIONS)
        return await self.of_host(host)

    async def all(self) -> list[StoredPace]:
        """Return all options of hosts, feeds and sources, in this order."""
        return sorted(await self._paces.all(), key=lambda one: (list(PaceScope).index(one.scope), one.name, one.origin))

    async def of_feeds(self, urls: Sequence[str]) -> dict[str, FeedPace]:
        """Return what was set for these feeds, and the pace of their hosts."""
        paces = await self._paces.read()
        return {url: FeedPace(paces.of_feed(ids.feed_id(url)), paces.of_url(url)) for url in urls}

    async def pace_of(self, name: str) -> HostPace | None:
        """Return the pace of a URL's host, or of a host with or without its port."""
        url = name if "://" in name else f"https://{name.removeprefix(ALL_HOSTS)}/"
        return (await self._paces.read()).of_url(url)

    async def of_host(self, host: str) -> PaceOption:
        option = NOTHING
        for one in sorted(await self._paces.all(), key=lambda one: (one.origin != COMMAND, one.origin)):
            if (one.scope, one.name) == (PaceScope.HOST, host):
                option = option.or_else(one.option)
        return option

    async def sync(self, origin: str, file: FeedFile) -> tuple[int, int]:
        """Make what a file has set equal to what it says; return how many options were set and removed."""
        feeds = [
            StoredPace(PaceScope.FEED, ids.feed_id(url), origin, option, hosts_of_url(url))
            for url, option in file.feeds.items()
        ]
        hosts = [StoredPace(PaceScope.HOST, host, origin, option) for host, option in file.hosts.items()]
        changed, removed = await self._paces.sync(origin, [*feeds, *hosts])
        url_of, paces = {ids.feed_id(url): url for url in file.feeds}, await self._paces.read()
        for one in changed:
            interval = paces.of_feed(one.name).interval_seconds if one.scope is PaceScope.FEED else None
            if interval is not None:
                await self._poll_sooner(url_of[one.name], interval)
        return len(changed), removed

    async def _change(
        self,
        scope: PaceScope,
        name: str,
        changes: Mapping[str, float | None],
        allowed: tuple[str, ...],
        hosts: tuple[str, ...] = (),
    ) -> None:
        try:
            new = checked_option(changes, allowed)
        except ValueError as error:
            raise FeedFileError(f"{error}.") from None
        own = [one for one in await self._paces.all() if (one.scope, one.name, one.origin) == (scope, name, COMMAND)]
        before = own[0].option if own else NOTHING
        option = replace(before, **{field: getattr(new, field) for field in changes})
        await self._paces.set(StoredPace(scope, name, COMMAND, option, hosts))

    async def _poll_sooner(self, url: str, interval: float) -> None:
        """Bring the next poll forward, where it is later than the new interval; never against a Retry-After."""
        [state] = await self._feeds.states([url])
        now = await connect.now(self._client)
        at = max(state.last_poll_ts + interval, now)
        is_asked_to_wait = state.next_poll_reason.startswith(RETRY_AFTER)
        if state.status is FeedStatus.OK and at < state.next_poll_ts and not is_asked_to_wait:
            await self._feeds.reschedule(url, at, interval_reason(interval, is_set=True))
