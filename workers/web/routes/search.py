"""Search, and how much and how fresh it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from core.search.io.unknown_names import unknown_names
from core.search.query_arguments import QueryArguments, build_query
from core.search.response_json import response_json
from core.store import connect
from workers.web.models import NoParameters, names
from workers.web.routing import Call, RouteTable, StoreCall
from workers.web.search_models import (
    AgeAnswer,
    BacklogAnswer,
    LastDayAnswer,
    SearchAnswer,
    SearchFilters,
    SearchRequest,
    SearchStatusAnswer,
)

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


@ROUTES.add(
    "GET",
    "/api/Search",
    "Search articles, pages and files, by words and by meaning.",
    description="Every result says when and how its text was last proved to be current. Without a model, or with "
    "one that is away, words alone are searched, and `by` says why.",
)
async def search(call: StoreCall, asked: SearchRequest) -> SearchAnswer:
    """Search by words and by meaning."""
    services = call.services
    wanted = await query_arguments(call, asked)
    paged = replace(wanted, page=asked.page, per_page=asked.per_page, nest_images=asked.nest_images)
    query = build_query(paged, example=EXAMPLE)
    response = await services.searcher.search(query)
    notes = [] if response.results else await unknown_names(services.client, services.keys, query.filters)
    explain_at = await connect.now(services.client) if asked.explain else None
    values = response_json(response, query, explain_at=explain_at)
    return SearchAnswer.model_validate({**values, "notes": notes})


@ROUTES.add(
    "GET",
    "/api/SearchStatus",
    "How much search knows: counts, change and error rates, age since the last proof, backlog.",
    description="Ages and the rates of the last day are those of some hundred random items; all else is counted.",
)
async def show_search_status(call: Call, _: NoParameters) -> SearchStatusAnswer:
    """Return counts, rates, ages and the backlog."""
    status = await call.services.monitor.search_status()
    freshness, backlog, ages = status.freshness, status.backlog, status.freshness.age_seconds
    return SearchStatusAnswer(
        now_ts=status.now_ts,
        items=status.items,
        indexed=status.items["Indexed"],
        articles=status.articles,
        space=status.space,
        visits=status.visits,
        change_rate=round(status.change_rate, 4),
        error_rate=round(status.error_rate, 4),
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
            queues=dict(status.queues.waiting),
            workers=dict(status.queues.workers),
        ),
    )
