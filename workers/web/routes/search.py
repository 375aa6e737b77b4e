"""Search, and how much and how fresh it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from core.search.io.unknown_names import unknown_names
from core.search.io.vector_space_store import VectorSpaceStore
from core.search.models import PER_PAGE, MatchedPassage
from core.search.query_arguments import MOST_FRESHNESS, MOST_PER_PAGE, QueryArguments, build_query
from core.search.response_json import response_json
from workers.web.models import AnswerModel, Flag, Moment, NoParameters, RequestModel, names
from workers.web.routing import Call, RouteTable, StoreCall

Names = Annotated[str, Field(max_length=1_000, description="Names, comma-separated; a page must have one of them.")]


class SearchFilters(RequestModel):
    """A query with filters."""

    q: str = Field(
        min_length=1,
        max_length=1_000,
        description='Words or a question; "quoted words" are looked for as they are.',
        examples=["who won the strike vote"],
    )
    category: Names = ""
    domain: Names = ""
    host: Names = ""
    language: Names = ""
    type: Annotated[str, Field(max_length=20, description="url, file, or both.")] = ""
    since: Moment = ""
    until: Moment = ""
    freshness: float = Field(
        default=0.0, ge=0.0, le=MOST_FRESHNESS, description="0: age does not matter; 1: a page of today counts double."
    )
    words: Flag = Field(default=False, description="By words alone.")


class SearchRequest(SearchFilters):
    """A query with filters and options."""

    page: int = Field(default=1, ge=1, le=2_000)
    per_page: int = Field(default=PER_PAGE, ge=1, le=MOST_PER_PAGE)
    nest_images: Flag = Field(default=False, alias="nestImages", description="With the images of each page.")
    explain: Flag = Field(default=False, description="With what the score of each result is made of.")


class ImageAnswer(AnswerModel):
    """An image of a page; an item of its own."""

    id: str
    url: str
    alt: str | None
    parentPageId: str | None
    parentPageUrl: str | None


class ScoreAnswer(AnswerModel):
    """What a score is made of."""

    lexical: float = Field(description="How well the words match, from 0 to 1.")
    semantic: float = Field(description="How well the meaning matches, from 0 to 1.")
    lexical_weight: float = Field(description="The weight of words; the rest is that of meaning.")
    freshness: float = Field(description="The factor by which the page counts more for its age.")


class SearchResultAnswer(AnswerModel):
    """A page that was found."""

    id: str
    score: float
    version: str
    url: str
    title: str
    language: str
    type: str
    host: str
    categories: list[str]
    domains: list[str]
    published_ts: float
    updated_ts: float
    author: str
    image: str
    verified_by: str = Field(
        description="How its text was last proved to be current: read, hash, 304, listing or feed; empty: never."
    )
    verified_ts: float
    verified_at: str
    checked_ts: float = Field(description="The last visit, also if it failed.")
    passages: list[MatchedPassage]
    duplicates: list[str]
    aliases: list[str]
    images: list[ImageAnswer]
    explain: ScoreAnswer | None = None


class SearchAnswer(AnswerModel):
    """One page of results."""

    query: str
    total: int
    more: bool = Field(description="Further results exist, too far down to be ranked.")
    page: int
    per_page: int
    by: str = Field(description="`words and meaning`, or `words` with the reason.")
    pending: int = Field(description="Texts that wait for their vectors.")
    showing_results_for: str = Field(
        "", description="The question with its spelling corrected, where it was. Words in quotes are never corrected."
    )
    results: list[SearchResultAnswer]
    notes: list[str] = Field(description="Names in the filters that nothing has.")


class AgeAnswer(AnswerModel):
    """Time since texts were last proved to be current, of a sample of items."""

    p50: float | None
    p95: float | None
    p99: float | None
    sampled: int


class LastDayAnswer(AnswerModel):
    """Visits within a day, of the same sample."""

    checked: int
    change_rate: float
    error_rate: float


class BacklogAnswer(AnswerModel):
    """What waits."""

    due: int
    due_by_source: dict[str, int] = Field(description="The ten sources with most due items.")
    lag_seconds: float
    feeds_due: int
    embed_waiting: int
    embed_paused: str = Field(description="Why nothing is embedded now; empty: it is.")
    queues: dict[str, int] = Field(description="Jobs that wait, by queue.")
    workers: dict[str, int] = Field(description="Live workers, by queue.")


class SearchStatusAnswer(AnswerModel):
    """How much search knows, and how fresh that is."""

    now_ts: float
    items: dict[str, int] = Field(description="Items by status.")
    indexed: int
    articles: int
    space: str = Field(description="The live vector space; empty: nothing was embedded yet.")
    visits: dict[str, int] = Field(description="Visits since the beginning, by outcome.")
    change_rate: float = Field(description="Share of all visits that found a new text.")
    error_rate: float = Field(description="Share of all visits that failed.")
    last_day: LastDayAnswer
    age_seconds: AgeAnswer
    backlog: BacklogAnswer


MOST_SOURCES = 10
EXAMPLE = "q=flood wall"
ROUTES = RouteTable("search")


async def query_arguments(call: StoreCall, asked: SearchFilters) -> QueryArguments:
    """Return what a request asks for, without paging."""
    return QueryArguments(
        asked.q,
        categories=names(asked.category),
        domains=names(asked.domain),
        hosts=names(asked.host),
        languages=names(asked.language),
        types=names(asked.type),
        since_ts=await call.moment(asked.since),
        until_ts=await call.moment(asked.until, is_end=True),
        freshness=asked.freshness,
        words=asked.words,
    )


@ROUTES.add("GET", "/api/Search")
async def search(call: StoreCall, asked: SearchRequest) -> SearchAnswer:
    """Search articles, pages and files, by words and by meaning.

    Every result says when and how its text was last proved to be current. Without a model, or with one that is
    away, words alone are searched, and `by` says why.
    """
    wanted = await query_arguments(call, asked)
    paged = replace(wanted, page=asked.page, per_page=asked.per_page, nest_images=asked.nest_images)
    query = build_query(paged, example=EXAMPLE)
    response = await call.services.searcher.search(query)
    notes = [] if response.results else await unknown_names(call.client, call.keys, query.filters)
    explain_at = await call.now() if asked.explain else None
    values = response_json(response, query, explain_at=explain_at)
    return SearchAnswer.model_validate({**values, "notes": notes})


@ROUTES.add("GET", "/api/SearchStatus")
async def show_search_status(call: Call, _: NoParameters) -> SearchStatusAnswer:
    """How much search knows: counts, change and error rates, age since the last proof, backlog.

    Ages and the rates of the last day are those of some hundred random items; all else is counted.
    """
    metrics = await call.services.monitor.metrics()
    freshness, backlog, ages = metrics.freshness, metrics.backlog, metrics.freshness.age_seconds
    visits = max(sum(metrics.fetches.values()), 1)
    return SearchStatusAnswer(
        now_ts=metrics.now_ts,
        items=dict(metrics.items),
        indexed=metrics.items["Indexed"],
        articles=metrics.articles,
        space=await VectorSpaceStore(call.client, call.keys).current(),
        visits=dict(metrics.fetches),
        change_rate=round(metrics.fetches["changed"] / visits, 4),
        error_rate=round(metrics.fetches["failed"] / visits, 4),
        last_day=LastDayAnswer(
            checked=freshness.checked_last_day,
            change_rate=round(freshness.change_rate_last_day, 4),
            error_rate=round(freshness.error_rate_last_day, 4),
        ),
        age_seconds=AgeAnswer(p50=ages.get(0.5), p95=ages.get(0.95), p99=ages.get(0.99), sampled=freshness.sampled),
        backlog=BacklogAnswer(
            due=backlog.due_items,
            due_by_source={sid: count for sid, count in Counter(backlog.due).most_common(MOST_SOURCES) if count},
            lag_seconds=backlog.lag_seconds,
            feeds_due=backlog.feeds_due,
            embed_waiting=backlog.embed_waiting,
            embed_paused=backlog.embed_paused,
            queues=dict(metrics.queues.waiting),
            workers=dict(metrics.queues.workers),
        ),
    )
