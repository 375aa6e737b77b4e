"""Articles: the newest of a category, or what a search finds in articles and in the pages of domains."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from core.registry.io.article_list import ArticleFilter, ArticleList, ArticleListPage
from core.search import snippet_cutting
from core.search.languages import language_of
from core.search.snippet_matching import read_question
from core.sources.io.domain_store import DomainStore
from workers.web.dashboard.page_table import PageTable, list_path
from workers.web.models import Cursor, Flag, Moment, Name, RequestModel
from workers.web.routes import search
from workers.web.routes.search import SearchRequest, SearchResultAnswer
from workers.web.routing import Call

ROUTES = PageTable()
PER_PAGE = 30
MOST_READ = 1_000
"""Articles that are read for one view: where a filter passes few of them, the page says so and its link goes on."""
MOST_PASSAGES = 2
SINCE = (("", "Any time"), ("2h", "2 hours"), ("1d", "A day"), ("3d", "3 days"), ("7d", "A week"), ("30d", "30 days"))
BY_BOTH = "words and meaning"
TITLE_CHARS = 1_000


class ArticlesPageRequest(RequestModel):
    """What to show: with `q` what a search finds, else the newest articles."""

    q: str = Field(default="", max_length=1_000)
    category: Name = ""
    language: Name = ""
    since: Moment = ""
    until: Moment = ""
    host: Name = ""
    domain: Name = ""
    explain: Flag = False
    page: int = Field(default=1, ge=1, le=2_000)
    cursor: Cursor = ""

    @property
    def filters(self) -> dict[str, Any]:
        """Return what is asked for and stays the same on the next page."""
        return self.model_dump(exclude_defaults=True, exclude={"page", "cursor"})

    def path_of(self, **changes: str | int) -> str:
        return list_path("/articles", self, **{"page": 1, "cursor": "", **changes})


@ROUTES.page("/articles", "Articles", "articles.html")
async def show_articles(call: Call, asked: ArticlesPageRequest) -> dict[str, Any]:
    values = await _found(call, asked) if asked.q.strip() else await _newest(call, asked)
    since = SINCE if any(asked.since == word for word, _ in SINCE) else (*SINCE, (asked.since, f"Since {asked.since}"))
    return {
        "asked": asked,
        "categories": await call.context.subscriptions.categories(),
        "domains": await DomainStore(call.client, call.keys).ids(),
        "since_choices": since,
        "has_more_filters": bool(asked.domain or asked.until or asked.host or asked.explain),
        "found": None,
        "articles": (),
        **values,
    }


# ── the list ──


async def _newest(call: Call, asked: ArticlesPageRequest) -> dict[str, Any]:
    listed = await _page(call, asked)
    return {
        "articles": listed.articles,
        "is_short": bool(listed.cursor) and len(listed.articles) < PER_PAGE,
        "newer": asked.path_of() if asked.cursor else "",
        "older": asked.path_of(cursor=listed.cursor) if listed.cursor else "",
    }


async def _page(call: Call, asked: ArticlesPageRequest) -> ArticleListPage:
    category = await call.context.subscriptions.require_category(asked.category) if asked.category else ""
    since, until = await call.moment(asked.since), await call.moment(asked.until, is_end=True)
    wanted = ArticleFilter(category, asked.host, asked.language, since, until)
    return await ArticleList(call.client, call.keys).page(wanted, PER_PAGE, asked.cursor, MOST_READ)


# ── the search ──


async def _found(call: Call, asked: ArticlesPageRequest) -> dict[str, Any]:
    request = SearchRequest(
        q=asked.q,
        category=asked.category,
        domain=asked.domain,
        host=asked.host,
        language=asked.language,
        since=asked.since,
        until=asked.until,
        page=asked.page,
        explain=asked.explain,
    )
    found = await search.search(call, request)
    question = found.showing_results_for or asked.q
    has_next = asked.page * found.per_page < found.total
    return {
        "found": found,
        "results": [_result(one, question) for one in found.results],
        "limits": "" if found.by == BY_BOTH else found.by,
        "newer": asked.path_of(page=asked.page - 1) if asked.page > 1 else "",
        "older": asked.path_of(page=asked.page + 1) if has_next else "",
    }


def _result(result: SearchResultAnswer, question: str) -> dict[str, Any]:
    """Return a result with its title and passages in parts that are highlighted or not."""
    from core.search.io import replica_stemming  # here: only a search loads tantivy

    title = (result.title or result.url)[:TITLE_CHARS]
    language = language_of(" ".join(one.snippet for one in result.passages), result.language)
    asked = read_question(question, language, replica_stemming.terms)
    _, ranges = snippet_cutting.snippet(title, asked, TITLE_CHARS)
    return {
        "page": result,
        "title": snippet_cutting.marked_parts(title, ranges),
        "passages": [
            (one.headings, snippet_cutting.marked_parts(one.snippet, one.highlights))
            for one in result.passages[:MOST_PASSAGES]
        ],
    }
