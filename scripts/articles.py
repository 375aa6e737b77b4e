"""Headlines, newest first: when they were stored and published, where they are from, in which language.

python -m scripts.articles
python -m scripts.articles --category world --since 2h
python -m scripts.articles --language de --host www.example.org --limit 100
python -m scripts.articles --since 2026-01-31 --until 2026-02-01 --json

Times are when Freshet first stored an article. `python -m scripts.read UID` shows its text.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from datetime import UTC, datetime

from core.errors import FreshetError, NotFound
from core.feeds.io.subscriptions import Subscriptions
from core.registry.io.article_list import ArticleFilter, ArticleList, ArticleSummary
from core.store import connect
from scripts import command_line
from scripts.tables import ago, table

HEAD = ("STORED", "PUBLISHED", "SOURCE", "LANG", "UID", "HEADLINE")


async def articles(wanted: ArticleFilter, limit: int, *, as_json: bool) -> int:
    """Print the headlines; no match is not an error, an unknown category is."""
    async with command_line.open_session() as (_, keys, client):
        found = [article async for article in ArticleList(client, keys).walk(wanted, limit)]
        categories = [] if found else await Subscriptions(client, keys).categories()
        now = await connect.now(client)
    if wanted.category and not found and wanted.category not in categories:
        raise NotFound(f"There is no category {wanted.category}; there are: {', '.join(categories) or 'none'}.")
    text = table(HEAD, [_row(article, now) for article in found]) if found else "No articles."
    return command_line.answer([asdict(article) for article in found], text, as_json=as_json)


def _row(article: ArticleSummary, now: float) -> tuple[str, ...]:
    published_ts = article.published_ts or 0.0
    return (
        ago(article.fetched_ts, now),
        f"{datetime.fromtimestamp(published_ts, UTC):%Y-%m-%d %H:%M}" if published_ts > 0 else "–",
        article.host,
        article.language or "–",
        article.uid,
        article.title or article.url,
    )


def _filter(options: argparse.Namespace) -> ArticleFilter:
    if options.limit < 1:
        raise FreshetError("--limit is 1 or more.")
    return ArticleFilter(
        category=options.category,
        host=options.host,
        language=options.language,
        since_ts=command_line.moment(options.since),
        until_ts=command_line.moment(options.until, is_end=True),
    )


async def _articles(options: argparse.Namespace) -> int:
    return await articles(_filter(options), options.limit, as_json=options.json)


def main() -> int:
    parser = command_line.parser("python -m scripts.articles", __doc__)
    parser.add_argument("--category", default="", metavar="C")
    parser.add_argument("--since", metavar="T", help="stored since: 30m, 2h, 3d, 2026-01-31, 2026-01-31T12:00Z")
    parser.add_argument("--until", metavar="T", help="and until")
    parser.add_argument("--language", default="", metavar="L", help="en, de, …")
    parser.add_argument("--host", default="", metavar="H")
    parser.add_argument("--limit", type=int, default=50, metavar="N", help="at most so many (default: 50)")
    parser.add_argument("--json", action="store_true", help="for programs")
    return command_line.run(_articles(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
