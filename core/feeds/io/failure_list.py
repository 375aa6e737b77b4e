"""List links that gave no article: counts by code and host, the newest page by page; and retry some of them.

The failures are a ZSET by time. Counts and filters look at the newest thousand: what fails now is what matters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from core.errors import FailCode
from core.feeds.io.failed_entries import FailedEntries, FailedEntry
from core.feeds.io.link_store import FailedLinks
from core.keys import Keys
from core.store import connect
from core.store.connect import Client, texts
from core.urls.normalise import host_of
from core.value_class import value_class

MOST_LOOKED_AT = 1_000
MOST_RETRIED = 10_000
"""By one request, the oldest first: what fails again is then the newest, and the next request goes on."""
MOST_HOSTS = 20

# KEYS[1] failures by time · ARGV: first, last, head of failure records. Returns `<uid>:<CODE>` and URL of each, newest
# first; without those whose record has expired.
_NEWEST = """
local found = {}
for _, member in ipairs(redis.call('ZREVRANGE', KEYS[1], ARGV[1], ARGV[2])) do
  local uid = string.match(member, '^[^:]*')
  local url = redis.call('HGET', ARGV[3] .. uid, 'url')
  if url then found[#found + 1], found[#found + 2] = member, url end
end
return found
"""


@value_class
class FailureFilter:
    """Which failures; empty: all."""

    code: str = ""
    host: str = ""

    def passes(self, code: str, url: str) -> bool:
        return self.code in ("", code) and (not self.host or host_of(url) == self.host.lower())


@value_class
class FailurePage:
    """Some failures, newest first, and how all that were looked at are spread."""

    total: int
    """All that are remembered, including those that were not looked at."""
    looked_at: int
    codes: tuple[tuple[str, int], ...]
    hosts: tuple[tuple[str, int], ...]
    """The hosts with most failures."""
    matching: int
    """How many of those that were looked at pass the filter."""
    failures: tuple[FailedEntry, ...]


class FailureList:
    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def page(self, wanted: FailureFilter, limit: int, offset: int = 0) -> FailurePage:
        """Return failures that pass, out of the newest thousand."""
        rows = await self._newest(0)
        matching = [uid for uid, code, url in rows if wanted.passes(code, url)]
        entries = await FailedEntries(self._client, self._keys).of_links(matching[offset : offset + limit])
        hosts = Counter(host for _, _, url in rows if (host := host_of(url)))
        return FailurePage(
            total=int(await self._client.zcard(self._keys.failures)),
            looked_at=len(rows),
            codes=_most(Counter(code for _, code, _ in rows), len(FailCode)),
            hosts=_most(hosts, MOST_HOSTS),
            matching=len(matching),
            failures=tuple(entries),
        )

    async def _newest(self, start: int) -> list[tuple[str, str, str]]:
        words = (str(start), str(start + MOST_LOOKED_AT - 1), self._keys.failure(""))
        found = texts(await self._client.eval(_NEWEST, 1, self._keys.failures, *words))
        return [(*member.partition(":")[::2], url) for member, url in zip(found[::2], found[1::2], strict=True)]

    async def retry(self, wanted: FailureFilter) -> int:
        """Make all links that pass new to the next run of the canonical fetcher; return how many."""
        chosen: list[str] = []
        total = int(await self._client.zcard(self._keys.failures))
        for start in reversed(range(0, total, MOST_LOOKED_AT)):
            chosen += [uid for uid, code, url in await self._newest(start) if wanted.passes(code, url)]
            if len(chosen) >= MOST_RETRIED:
                break
        return await self._retry(chosen[:MOST_RETRIED])

    async def retry_link(self, uid: str) -> int:
        """Make one link new; return 0 if no failure of it is known."""
        return await self._retry([uid] if await FailedEntries(self._client, self._keys).of_links([uid]) else [])

    async def _retry(self, uids: list[str]) -> int:
        links, now = FailedLinks(self._client, self._keys), await connect.now(self._client)
        for start in range(0, len(uids), MOST_LOOKED_AT):
            await links.retry(uids[start : start + MOST_LOOKED_AT], now)
        return len(uids)


def _most(counts: Counter[str], most: int) -> tuple[tuple[str, int], ...]:
    pairs: Iterable[tuple[str, int]] = counts.items()
    return tuple(sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:most])
