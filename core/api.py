"""Freshet from your own Python: plain functions that return typed values. docs/python.md shows each of them.

from core.api import reindex, search
reindex("https://example.org/a", force=True)
print([page.title for page in search("flood wall").results])

They work on the store of the settings (REDIS_URL, or the server of a running ./scripts/up), or, with FRESHET_URL set,
over HTTP with API_TOKEN; results and errors are the same. Every error is a FreshetError with a sentence. They may be
called where an event loop runs already, as in a notebook.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from core.errors import NotFound
from core.feeds.io.subscriptions import Subscriptions
from core.registry.io.article_list import MOST_ARTICLES, ArticleFilter, ArticleList, ArticleSummary
from core.registry.io.reindex import Reindexer, ReindexRequest, ReindexResult
from core.registry.io.url_adder import AddedUrl, UrlAdder
from core.registry.io.why_trail_reader import explain_url
from core.registry.time_parsing import parse_moment
from core.runs.io.run_control import RunControl
from core.runs.io.run_store import RunStore
from core.runs.run import Run, run_json
from core.runtime.api_call import ApiRequest, OpenStore, answer
from core.runtime.api_results import ExplainedUrl, FoundPages, RunState, StoreStatus
from core.runtime.store_status import collect_status
from core.search.io.stored_texts import StoredText, StoredTextReader, stored_text_json
from core.search.models import PER_PAGE
from core.search.query_arguments import QueryArguments, build_query
from core.search.response_json import response_json
from core.settings import load
from core.store import connect

__all__ = [
    *("add_url", "article", "articles", "cancel", "pause", "register", "reindex", "resume", "runs", "search"),
    *("status", "why"),
]

Moment = str | datetime | None
"""`2h`, `3d`, `2026-01-31`, or a datetime."""
Names = str | Sequence[str]


# ── read ──


def search(
    text: str,
    *,
    category: Names = (),
    domain: Names = (),
    host: Names = (),
    language: Names = (),
    type: Names = (),
    since: Moment = None,
    until: Moment = None,
    page: int = 1,
    per_page: int = PER_PAGE,
    freshness: float = 0.0,
    nest_images: bool = False,
    words: bool = False,
) -> FoundPages:
    """Search by words and by meaning; `words`: by words alone. A filter may have several names, of which one counts."""
    asked = QueryArguments(
        text,
        *(_names(category), _names(domain), _names(host), _names(language), _names(type)),
        page=page,
        per_page=per_page,
        freshness=freshness,
        nest_images=nest_images,
        words=words,
    )

    async def here(store: OpenStore) -> object:
        from core.search.io.searcher import open_searcher  # needs what only the extra `search` installs
        from core.search.io.unknown_names import unknown_names

        first, last = await _moment(store, since), await _moment(store, until, is_end=True)
        query = build_query(replace(asked, since_ts=first, until_ts=last))
        async with open_searcher(*store, mend=True, is_brief=True) as searcher:
            response = await searcher.search(query, await connect.now(store.client))
        notes = [] if response.results else await unknown_names(store.client, store.keys, query.filters)
        return {**response_json(response, query), "notes": notes}

    values = {
        "q": text,
        "category": ",".join(asked.categories),
        "domain": ",".join(asked.domains),
        "host": ",".join(asked.hosts),
        "language": ",".join(asked.languages),
        "type": ",".join(asked.types),
        "since": _text(since),
        "until": _text(until),
        "page": page,
        "per_page": per_page,
        "freshness": freshness,
        "nestImages": nest_images,
        "words": words,
    }
    return answer(FoundPages, here, ApiRequest("GET", "/api/Search", values))


def articles(
    category: str = "",
    *,
    host: str = "",
    language: str = "",
    since: Moment = None,
    until: Moment = None,
    limit: int = 50,
) -> list[ArticleSummary]:
    """List articles, newest first, without their texts."""
    found: list[ArticleSummary] = []
    cursor, asked = "", {"category": category, "host": host, "language": language}
    asked |= {"since": _text(since), "until": _text(until)}

    async def here(store: OpenStore) -> object:
        slug = await Subscriptions(store.client, store.keys).require_category(category) if category else ""
        first, last = await _moment(store, since), await _moment(store, until, is_end=True)
        wanted = ArticleFilter(slug, host, language, first, last)
        read = await ArticleList(store.client, store.keys).page(wanted, min(limit - len(found), MOST_ARTICLES), cursor)
        return asdict(read)

    while len(found) < limit:
        many = {**asked, "limit": min(limit - len(found), MOST_ARTICLES), "cursor": cursor}
        listed = answer(_ArticlePage, here, ApiRequest("GET", "/api/articles", many))
        found, cursor = [*found, *listed.articles], listed.cursor
        if not cursor:
            break
    return found


def article(name: str) -> StoredText:
    """Return an article with its text, by its uid or any of its URLs. Raises NotFound."""

    async def here(store: OpenStore) -> object:
        text = await StoredTextReader(store.client, store.keys).find(name, Path("/"))
        if text is None or not text.uid:
            raise NotFound(f"There is no article {name}. `why` says what became of a URL.")
        return stored_text_json(text)

    uid = name if "/" not in name or not load().freshet_url else why(name).uid
    return answer(StoredText, here, ApiRequest("GET", f"/api/articles/{uid or name}"))


def why(url: str) -> ExplainedUrl:
    """Explain why a URL is there, or not: who lists it, what became of it, what happens next."""

    async def here(store: OpenStore) -> object:
        now = await connect.now(store.client)
        return (await explain_url(store.client, store.keys, store.settings, url, now)).to_json()

    return answer(ExplainedUrl, here, ApiRequest("GET", "/api/items/why", {"url": url}))


def status() -> StoreStatus:
    """Return how much there is, and what waits."""

    async def here(store: OpenStore) -> object:
        return await collect_status(*store)

    def flat(values: Any) -> object:
        registry = values["registry"]
        waiting = registry["search"]["waiting"]
        parts = {name: registry[name] for name in ("items", "due", "queues")}
        return {**values, **parts, "failures": values["failures"]["by_code"], "waiting_for_vectors": waiting}

    return answer(StoreStatus, here, ApiRequest("GET", "/api/status"), flat)


# ── change ──


def reindex(
    name: str | Iterable[str] = (),
    *,
    category: str | None = None,
    domain: str | None = None,
    source: str | None = None,
    host: str | None = None,
    status: str | None = None,
    stale: bool = False,
    all: bool = False,
    force: bool = False,
) -> ReindexResult:
    """Make items due now and send the first jobs: one or several by id, URL or path, or all that have something in
    common. With `force` they are read again even if their server says 304, and failed links are tried again."""
    chosen = ReindexRequest(None, category, domain, source, host, status, stale, all, force)
    names = [name] if isinstance(name, str) else list(name)
    requests = [replace(chosen, name=_absolute(one)) for one in names] or [chosen]
    results = [_reindex(request) for request in requests]
    return ReindexResult(
        items=sum(one.items for one in results),
        links=sum(one.links for one in results),
        jobs=sum(one.jobs for one in results),
        queue_problem=next((one.queue_problem for one in results if one.queue_problem), ""),
        run_id=next((one.run_id for one in results if one.run_id), ""),
        waiting=sum(one.waiting for one in results),
        paused=next((one.paused for one in results if one.paused), ""),
    )


def _reindex(request: ReindexRequest) -> ReindexResult:
    async def here(store: OpenStore) -> object:
        return asdict(await Reindexer(*store).run(request))

    values = asdict(request)
    address = values.pop("name")
    values |= {"source" if address and "/" in address else "id": address} if address else {}
    return answer(ReindexResult, here, ApiRequest("POST", "/api/ReindexItem", values))


def register(url: str, *, category: str = "", domain: str = "", force: bool = False) -> AddedUrl:
    """Add a URL: a single page, an article of a category, or a page of a domain. A known one is checked now."""

    async def here(store: OpenStore) -> object:
        return asdict(await UrlAdder(*store).add(url, category=category, domain=domain, force=force))

    values = {"url": url, "category": category, "domain": domain, "force": force}
    return answer(AddedUrl, here, ApiRequest("POST", "/api/AddUrlDocument", values))


add_url = register


# ── runs ──


def runs(limit: int = 20) -> list[RunState]:
    """Return the last runs, newest first."""

    async def here(store: OpenStore) -> object:
        found = await RunStore(store.client, store.keys).newest(limit, await connect.now(store.client))
        return {"jobs": [run_json(run) for run in found]}

    asked = ApiRequest("GET", "/v2/jobs", {"limit": limit})
    return answer(list[RunState], here, asked, lambda values: values["jobs"])


def pause(run_id: str) -> RunState:
    """Pause a run: workers finish what they have in hand and take no more."""
    return _control(run_id, "pause", RunControl.pause)


def resume(run_id: str) -> RunState:
    """Go on with a run where it stopped."""
    return _control(run_id, "resume", RunControl.resume)


def cancel(run_id: str) -> RunState:
    """Cancel a run; finished work is kept."""
    return _control(run_id, "cancel", RunControl.cancel)


def _control(run_id: str, verb: str, order: Callable[[RunControl, str], Awaitable[Run]]) -> RunState:
    async def here(store: OpenStore) -> object:
        return run_json(await order(RunControl(*store), run_id))

    return answer(RunState, here, ApiRequest("POST", f"/v2/jobs/{run_id}/{verb}"))


# ── arguments ──


class _ArticlePage(NamedTuple):
    articles: tuple[ArticleSummary, ...]
    cursor: str


def _names(given: Names) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _text(moment: Moment) -> str:
    return moment.isoformat() if isinstance(moment, datetime) else moment or ""


async def _moment(store: OpenStore, moment: Moment, *, is_end: bool = False) -> float | None:
    text = _text(moment)
    return parse_moment(text, await connect.now(store.client), is_end=is_end) if text else None


def _absolute(name: str) -> str:
    """Return a path as the store knows it, and anything else as it is."""
    return str(Path(name).absolute()) if "://" not in name and Path(name).exists() else name
