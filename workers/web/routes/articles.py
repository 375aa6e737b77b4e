"""Articles: the list, newest first, and one with its text."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, RootModel

from core.errors import NotFound
from core.registry.io.article_list import ArticleFilter, ArticleList, ArticleSummary
from core.search.io.stored_texts import StoredText, StoredTextReader
from workers.web.models import AnswerModel, Cursor, Limit, Moment, Name, RequestModel
from workers.web.routing import Call, RouteTable, StoreCall

ROUTES = RouteTable("articles")


class ArticlesRequest(RequestModel):
    """Which articles."""

    category: Name = ""
    host: Name = ""
    language: Name = Field(default="", examples=["en"])
    since: Moment = Field(default="", description="First stored at this time or later: a date, or 30m, 2h, 3d.")
    until: Moment = ""
    limit: Limit = 50
    cursor: Cursor = ""


class ArticlesAnswer(AnswerModel):
    """Some articles."""

    articles: list[ArticleSummary]
    cursor: str = Field(description="For the next page; empty: there are no more.")


class ArticleRequest(RequestModel):
    """One article."""

    uid: str = Field(pattern=r"^[0-9a-f]{16}$", examples=["0123456789abcdef"])


class TextAnswer(RootModel[StoredText]):
    """An article, a page or a file with its text; docs/export.md describes the fields."""


@ROUTES.add("GET", "/api/articles")
async def list_articles(call: StoreCall, asked: ArticlesRequest) -> ArticlesAnswer:
    """Articles, newest first."""
    subscriptions = call.context.subscriptions
    category = await subscriptions.require_category(asked.category) if asked.category else ""
    wanted = ArticleFilter(
        category,
        asked.host,
        asked.language,
        await call.moment(asked.since),
        await call.moment(asked.until, is_end=True),
    )
    page = await ArticleList(call.client, call.keys).page(wanted, asked.limit, asked.cursor)
    return ArticlesAnswer(articles=list(page.articles), cursor=page.cursor)


@ROUTES.add("GET", "/api/articles/{uid}")
async def show_article(call: Call, asked: ArticleRequest) -> TextAnswer:
    """One article with its text.

    By its uid, or by that of another URL of it.
    """
    text = await StoredTextReader(call.client, call.keys).find(asked.uid, Path("/"))
    if text is None:
        raise NotFound(f"There is no article {asked.uid}. GET /api/items/why?url=… says what became of a URL.")
    return TextAnswer(text)
