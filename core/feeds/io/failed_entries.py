"""List links that gave no article, each with the reason: of a feed, or any."""

from __future__ import annotations

from collections.abc import Sequence

from core import ids
from core.keys import Keys
from core.registry import field_parsing
from core.store import scanning
from core.store.connect import Client, texts
from core.store.pipeline import read_many
from core.urls.secrets import redact, without_credentials
from core.value_class import value_class

MOST_OF_FEED_LOOKED_AT = 5_000
"""A sitemap may list 50,000 pages; of more than this only some are looked at."""
NEWEST_FAILURES = 500
_FIELDS = ("url", "code", "detail", "text", "http_status", "tries", "last_ts", "feed")


@value_class
class FailedEntry:
    url: str
    code: str
    """`FAIL_HTTP/status` and the like."""
    text: str
    http_status: int
    tries: int
    failed_ts: float
    retry_ts: float
    """When it is tried again; 0: not by itself."""
    uid: str = ""

    def to_json(self) -> dict[str, object]:
        return {
            "url": redact(self.url),
            "code": self.code,
            "text": redact(self.text),
            "http_status": self.http_status or None,
            "tries": self.tries,
            "failed_ts": self.failed_ts or None,
            "retry_ts": self.retry_ts or None,
        }


class FailedEntries:
    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def of_feed(self, feed_url: str, most: int) -> list[FailedEntry]:
        """Return the entries of this feed that failed last, newest first: of its last body, and of earlier ones."""
        newest = texts(await self._client.zrange(self._keys.failures, 0, NEWEST_FAILURES - 1, desc=True))
        uids = dict.fromkeys(member.partition(":")[0] for member in newest)
        found = {entry.url: entry for entry in await self.of_links(list(uids), without_credentials(feed_url))}
        looked_at = 0
        async for links in scanning.set_members(self._client, self._keys.feed_links(ids.feed_id(feed_url))):
            found |= {entry.url: entry for entry in await self.of_links([ids.article_uid(url) for url in links])}
            looked_at += len(links)
            if looked_at >= MOST_OF_FEED_LOOKED_AT:
                break
        return sorted(found.values(), key=lambda entry: (-entry.failed_ts, entry.url))[:most]

    async def of_links(self, uids: Sequence[str], feed: str = "") -> list[FailedEntry]:
        """Return those of these links that failed, in order; with `feed` only those that it named."""
        records = await read_many(self._client, [("HMGET", self._keys.failure(uid), *_FIELDS) for uid in uids])
        retries = await read_many(self._client, [("ZSCORE", self._keys.retry, uid) for uid in uids])
        rows = zip(uids, records, retries, strict=True)
        return [
            FailedEntry(
                url,
                "/".join(filter(None, (code, detail))),
                text or "",
                field_parsing.integer(status),
                field_parsing.integer(tries),
                field_parsing.timestamp(last),
                field_parsing.timestamp(retry),
                uid,
            )
            for uid, (url, code, detail, text, status, tries, last, named_by), retry in rows
            if url and feed in ("", named_by)
        ]
