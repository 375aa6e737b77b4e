"""List articles, newest first, without reading their texts: what `freshet articles` and the API show.

A page of the list ends with a cursor, which stays valid while articles come and go. Nothing is written.
"""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from core.errors import FreshetError
from core.keys import Keys
from core.registry import field_parsing, verification
from core.store.connect import Client, texts
from core.store.pipeline import read_many
from core.urls.normalise import host_of
from core.value_class import value_class

MOST_ARTICLES = 1_000
"""On one page of the list."""
MOST_READ = 20_000
"""Articles that are read for one page. Where a filter passes few of them, the page is short and its cursor goes on."""
SEEN_PER_READ = 10
"""Checking whether an article is in a category costs a tenth of reading it."""
MOST_SORTED = 5_000
"""Articles of a category that are sorted here, rather than looked for in the index of all articles."""
_AT_ONCE = 1_000
_FIELDS = (
    *("status", "item_id", "url", "title", "abstract", "author", "image", "feed", "category", "categories", "language"),
    *("published_ts", "fetched_ts", "updated_ts", "text_len", "duplicate_of"),
)
_FILTERED = ("url", "language")


class InvalidCursor(FreshetError):
    """A cursor is none of ours."""


@value_class
class ArticleFilter:
    """What a list is limited to; empty: every article."""

    category: str = ""
    host: str = ""
    language: str = ""
    """`en`; a region (`en-GB`) does not count."""
    since_ts: float | None = None
    """First stored at this time or later; not when it was published, which may be long ago or unknown."""
    until_ts: float | None = None


@value_class
class ArticleSummary:
    """An article without its text. Every value can be written as JSON."""

    uid: str
    item_id: str
    url: str
    title: str
    abstract: str
    author: str
    image: str
    host: str
    feed: str
    """The feed that listed it first; empty if the link was added by hand."""
    category: str
    categories: tuple[str, ...]
    language: str
    published_ts: float | None
    """None: neither the page nor the feed says it."""
    fetched_ts: float
    """When it was first stored, by which the list is sorted."""
    updated_ts: float | None
    """When its text or metadata last changed; None: never since it was stored."""
    text_len: int
    duplicate_of: str
    """Uid of the article that had the same text first; empty: this one."""
    verified_by: str = ""
    """How its text was last proved to be current: `read`, `hash`, `304`, `listing` or `feed`; empty: never."""
    verified_ts: float | None = None
    checked_ts: float | None = None
    """The last visit, also one that failed."""


@value_class
class ArticleListPage:
    """Some articles, and where the list goes on."""

    articles: tuple[ArticleSummary, ...]
    cursor: str
    """For the next page; empty: there are no more."""


class ArticleList:
    """Reads the list of articles."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def page(
        self, wanted: ArticleFilter, limit: int = 50, cursor: str = "", most_read: int | None = None
    ) -> ArticleListPage:
        """Return up to `limit` articles after the cursor; fewer, also none, if a filter passes few of `most_read`."""
        limit, most_read = min(max(limit, 1), MOST_ARTICLES), most_read or MOST_READ
        found: list[tuple[float, ArticleSummary]] = []
        read, seen, size = 0, 0, limit + 1  # ten headlines need not read a thousand articles
        async for batch in self._batches(wanted, _parse_cursor(cursor)):
            members = await self._in_category(batch, wanted.category)
            while members:
                part, members = members[:size], members[size:]
                found += await self._read(await self._passing(part, wanted))
                if len(found) > limit:
                    place, last = found[limit - 1]
                    return await self._list_page(found[:limit], _cursor(place, last.uid))
                read, size = read + len(part), min(size * 2, _AT_ONCE)
                if read >= most_read:
                    return await self._list_page(found, _cursor(*part[-1]))
            seen += len(batch)
            if seen >= most_read * SEEN_PER_READ:
                return await self._list_page(found, _cursor(*batch[-1]))
        return await self._list_page(found, "")

    async def walk(self, wanted: ArticleFilter, limit: int | None = None) -> AsyncIterator[ArticleSummary]:
        """Yield the articles of all pages, newest first."""
        left, cursor = math.inf if limit is None else limit, ""
        while left > 0:
            page = await self.page(wanted, int(min(left, MOST_ARTICLES)), cursor)
            for article in page.articles:
                yield article
            left, cursor = left - len(page.articles), page.cursor
            if not cursor:
                return

    async def uids(self, category: str = "") -> AsyncIterator[list[str]]:
        """Yield the uids of the index in batches, newest first; some may have no article any more."""
        async for batch in self._batches(ArticleFilter(), None):
            yield [uid for _, uid in await self._in_category(batch, category)]

    async def _batches(
        self, wanted: ArticleFilter, after: tuple[float, str] | None
    ) -> AsyncIterator[list[tuple[float, str]]]:
        """Yield times and uids of the index, newest first; by time, so that none is left out if others come or go."""
        if wanted.category and await self._is_small(wanted.category):
            if places := await self._sorted(wanted, after):
                yield places
            return
        last = "-inf" if wanted.since_ts is None else f"{wanted.since_ts:.6f}"
        first = "+inf" if wanted.until_ts is None else f"{wanted.until_ts:.6f}"
        skipped = 0
        while True:
            start = first if after is None else f"{after[0]:.17g}"
            rows: Sequence[tuple[str, float]] = await self._client.zrange(  # type: ignore[assignment]
                self._keys.article_index, start, last, desc=True, byscore=True, offset=skipped, num=_AT_ONCE,
                withscores=True,
            )  # fmt: skip
            batch = [(float(score), str(uid)) for uid, score in rows]
            new = batch if after is None else [one for one in batch if one < after]
            if new:
                after, skipped = new[-1], 0
                yield new
            else:  # more than one batch of articles of the very same moment
                skipped += len(batch)
            if len(batch) < _AT_ONCE:
                return

    async def _is_small(self, category: str) -> bool:
        return int(await self._client.scard(self._keys.articles_by_category(category))) <= MOST_SORTED

    async def _sorted(self, wanted: ArticleFilter, after: tuple[float, str] | None) -> list[tuple[float, str]]:
        """Return the same of a small category: a few among a million would be found only at the end of the index."""
        uids = texts(await self._client.smembers(self._keys.articles_by_category(wanted.category)))
        scores = await self._client.zmscore(self._keys.article_index, uids) if uids else []
        since = -math.inf if wanted.since_ts is None else wanted.since_ts
        until = math.inf if wanted.until_ts is None else wanted.until_ts
        places = [(float(score), uid) for uid, score in zip(uids, scores, strict=True) if score is not None]
        return sorted(
            (one for one in places if since <= one[0] <= until and (after is None or one < after)), reverse=True
        )

    async def _in_category(self, batch: Sequence[tuple[float, str]], category: str) -> list[tuple[float, str]]:
        if not category:
            return list(batch)
        uids = [uid for _, uid in batch]
        is_member = await self._client.smismember(self._keys.articles_by_category(category), uids)
        return [one for one, is_in in zip(batch, is_member, strict=True) if is_in]

    async def _passing(
        self, members: Sequence[tuple[float, str]], wanted: ArticleFilter
    ) -> Sequence[tuple[float, str]]:
        """Return those of the right host and language; of the others nothing else is read."""
        if not wanted.host and not wanted.language:
            return members
        rows = await read_many(self._client, [("HMGET", self._keys.article(uid), *_FILTERED) for _, uid in members])
        return [one for one, (url, language) in zip(members, rows, strict=True) if _passes(url, language, wanted)]

    async def _read(self, members: Sequence[tuple[float, str]]) -> list[tuple[float, ArticleSummary]]:
        """Return those that are there: an article may have expired, or be hidden by a 404."""
        rows = await read_many(self._client, [("HMGET", self._keys.article(uid), *_FIELDS) for _, uid in members])
        found = []
        for (score, uid), row in zip(members, rows, strict=True):
            fields = dict(zip(_FIELDS, row, strict=True))
            if fields["status"] == "success":
                found.append((score, _summary(uid, score, fields)))
        return found

    async def _list_page(self, found: Sequence[tuple[float, ArticleSummary]], cursor: str) -> ArticleListPage:
        """Return a page with what the registry knows of the last proof of each text."""
        wanted = [("HMGET", self._keys.item(one.item_id), *verification.FIELDS) for _, one in found]
        rows = await read_many(self._client, wanted)
        proofs = [verification.parse(dict(zip(verification.FIELDS, row, strict=True))) for row in rows]
        return ArticleListPage(
            tuple(
                replace(
                    one,
                    verified_by=proof.verified_by,
                    verified_ts=proof.verified_ts or None,
                    checked_ts=proof.checked_ts or None,
                )
                for (_, one), proof in zip(found, proofs, strict=True)
            ),
            cursor,
        )


def _summary(uid: str, stored_ts: float, fields: dict[str, str | None]) -> ArticleSummary:
    text = {name: field_parsing.text(value) for name, value in fields.items()}
    return ArticleSummary(
        uid=uid,
        item_id=text["item_id"],
        url=text["url"],
        title=text["title"],
        abstract=text["abstract"],
        author=text["author"],
        image=text["image"],
        host=host_of(text["url"]),
        feed=text["feed"],
        category=text["category"],
        categories=tuple(filter(None, text["categories"].split(","))),
        language=text["language"],
        published_ts=field_parsing.timestamp(fields["published_ts"]) or None,
        fetched_ts=field_parsing.timestamp(fields["fetched_ts"]) or stored_ts,
        updated_ts=field_parsing.timestamp(fields["updated_ts"]) or None,
        text_len=field_parsing.integer(fields["text_len"]),
        duplicate_of=text["duplicate_of"],
    )


def _passes(url: str | None, language: str | None, wanted: ArticleFilter) -> bool:
    if wanted.host and host_of(field_parsing.text(url)) != wanted.host.lower():
        return False
    return not wanted.language or _base(language or "") == _base(wanted.language)


def _base(language: str) -> str:
    return re.split("[-_]", language.lower())[0]


def _cursor(stored_ts: float, uid: str) -> str:
    return f"{stored_ts:.17g}~{uid}"


def _parse_cursor(cursor: str) -> tuple[float, str] | None:
    if not cursor:
        return None
    stored_ts, separator, uid = cursor.partition("~")
    place = field_parsing.number(stored_ts, math.nan)
    if separator and not math.isnan(place):
        return place, uid
    raise InvalidCursor("This cursor is not one that a list has returned; leave it out to begin at the newest.")
