"""Read what republished feeds hold: the newest articles of a category, and what a search finds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from core.keys import Keys
from core.outputs.published_feed import PublishedEntry, tag_uri, web_link
from core.registry.io.article_list import ArticleFilter, ArticleList, ArticleSummary
from core.search.io.shared_searcher import SharedSearcher
from core.search.io.stored_texts import StoredText, StoredTextReader
from core.search.models import Query
from core.search.query_arguments import MOST_PER_PAGE
from core.store.connect import Client

MOST_FEED_CHARS = 10_000_000
"""Limit for the texts of all entries together; those after it have only their summary."""
_TEXTS_AT_ONCE = 20


class PublishedArticles:
    """Reads entries. Those without a link of the web, such as files, get one of the API below `base_url`."""

    def __init__(self, client: Client, keys: Keys, base_url: str) -> None:
        self._client = client
        self._keys = keys
        self._base_url = base_url
        self._list = ArticleList(client, keys)
        self._texts = StoredTextReader(client, keys)

    async def newest(self, category: str, limit: int) -> tuple[PublishedEntry, ...]:
        """Return the articles of a category that were stored last, without copies of others in it."""
        found: list[ArticleSummary] = []
        cursor = ""
        while len(found) < limit:
            page = await self._list.page(ArticleFilter(category), limit, cursor)
            found += await self._without_copies(page.articles, category)
            cursor = page.cursor
            if not cursor:
                break
        texts = await self._read([one.item_id for one in found[:limit] if one.item_id])
        # An article is listed a moment before its item has its text, and after its item was lost.
        return tuple(
            self._entry(texts[one.item_id]) if one.item_id in texts else self._short_entry(one) for one in found[:limit]
        )

    async def best(self, searcher: SharedSearcher, query: Query, limit: int) -> tuple[PublishedEntry, ...]:
        """Return the best answers to a query, newest first."""
        item_ids: list[str] = []
        for page in _pages(query, limit):
            response = await searcher.search(page)
            item_ids += [result.page.item_id for result in response.results]
            if len(response.results) < page.per_page:
                break
        texts = await self._read(list(dict.fromkeys(item_ids))[:limit])
        return tuple(sorted(map(self._entry, texts.values()), key=lambda entry: (-entry.published_ts, entry.id)))

    async def _without_copies(self, articles: Sequence[ArticleSummary], category: str) -> list[ArticleSummary]:
        """Leave out articles with the same text as an earlier one that the category has too."""
        originals = sorted({one.duplicate_of for one in articles if one.duplicate_of})
        if not originals:
            return list(articles)
        is_in = await self._client.smismember(self._keys.articles_by_category(category), originals)
        there = {uid for uid, is_member in zip(originals, is_in, strict=True) if is_member}
        return [one for one in articles if one.duplicate_of not in there]

    async def _read(self, item_ids: Sequence[str]) -> dict[str, StoredText]:
        """Return the texts by item id; in batches, since each may have megabytes, and not more than a feed should."""
        found: dict[str, StoredText] = {}
        room = MOST_FEED_CHARS
        for start in range(0, len(item_ids), _TEXTS_AT_ONCE):
            for text in await self._texts.read(item_ids[start : start + _TEXTS_AT_ONCE]):
                room -= len(text.text)
                found[text.id] = replace(text, markdown="", text=text.text if room >= 0 else "")
        return found

    def _entry(self, text: StoredText) -> PublishedEntry:
        updated_ts = text.updated_ts or text.fetched_ts or 0.0
        return PublishedEntry(
            id=tag_uri(text.uid or text.id),
            link=web_link(text.canonical_url, text.final_url, text.url) or f"{self._base_url}/api/items/{text.id}",
            title=text.title,
            published_ts=text.published_ts or text.fetched_ts or updated_ts,
            updated_ts=updated_ts,
            author=text.author,
            summary=text.abstract,
            text=text.text,
            image=text.image,
            language=text.language,
            categories=text.categories or text.domains,
        )

    def _short_entry(self, article: ArticleSummary) -> PublishedEntry:
        return PublishedEntry(
            id=tag_uri(article.uid),
            link=web_link(article.url) or f"{self._base_url}/api/articles/{article.uid}",
            title=article.title,
            published_ts=article.published_ts or article.fetched_ts,
            updated_ts=article.updated_ts or article.fetched_ts,
            author=article.author,
            summary=article.abstract,
            image=article.image,
            language=article.language,
            categories=article.categories,
        )


def _pages(query: Query, limit: int) -> Iterator[Query]:
    """Yield the queries whose pages together have `limit` results."""
    per_page = min(limit, MOST_PER_PAGE)
    for number in range(1, -(-limit // per_page) + 1):
        yield replace(query, page=number, per_page=per_page)
