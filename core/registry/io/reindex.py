"""Reindex items: select them, count them, make them due, and send the first jobs.

The registry is marked first, then the workers are woken; what no job names the timer picks up, so nothing is lost
where nobody listens.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from redis.exceptions import RedisError

from core.errors import FreshetError, NotFound
from core.feeds.io.link_store import FailedLinks
from core.ids import domain_of_source
from core.keys import Keys
from core.registry.io.due import DueItems
from core.registry.io.item_queries import ItemQueries, one_domain_of
from core.registry.io.paused_items import PausedItems
from core.registry.io.reindex_run_items import ReindexRunItems, open_reindex
from core.registry.io.store_counts import StoreCounts
from core.registry.record import ARTICLES_SOURCE, URLS_SOURCE, Status
from core.runs.io.run_store import RunStore
from core.settings import Settings
from core.sources.io.domain_store import DomainStore
from core.sources.io.source_store import SourceStore
from core.store import connect
from core.store.connect import Client
from core.store.leases import Leases, new_token
from core.urls.secrets import redact
from core.value_class import value_class

ROOT = Path("/")
MOST_JOBS = 10
"""More would only wait in the queue: the timer picks up the rest."""


@value_class
class ReindexRequest:
    """Which items to reindex, by one of the first fields, and how."""

    name: str | None = None
    """An item id, an article's uid, a URL or a path."""
    category: str | None = None
    domain: str | None = None
    source: str | None = None
    host: str | None = None
    status: str | None = None
    stale: bool = False
    """Items that an older extractor read."""
    all: bool = False
    force: bool = False
    """Ignore validators and hashes; try links again that gave no article."""


@dataclass(slots=True)
class Selection:
    """Batches of item ids, and of uids of links that gave no article."""

    items: AsyncIterator[list[str]]
    links: AsyncIterator[list[str]]
    domain: str = ""
    """The domain that has all of it, if there is one."""


@dataclass(slots=True)
class SelectionCounts:
    """Number of selected items."""

    items: int = 0
    requests: int = 0
    links: set[str] = field(default_factory=set)
    hosts: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class MarkedDue:
    """What was made due."""

    now: float
    token: str
    items: int = 0
    links: set[str] = field(default_factory=set)
    first: list[str] = field(default_factory=list)
    """The items that jobs are sent for."""
    run_id: str = ""
    waiting: int = 0
    paused: str = ""


@value_class
class ReindexResult:
    """The result of a reindex request."""

    items: int
    """Items that are due now."""
    links: int
    """Links without an article that the canonical fetcher tries again in its next run."""
    jobs: int
    """Jobs that were sent; the timer brings what they do not name."""
    queue_problem: str = ""
    """Why no jobs could be sent; the timer brings everything when the queue is back."""
    run_id: str = ""
    """The run that visits the items; empty if there are none."""
    waiting: int = 0
    """Items that are not visited before someone resumes what is paused."""
    paused: str = ""
    """What they wait for and the command that goes on with it, as a sentence; empty if nothing waits."""


class Reindexer:
    """Selects items and makes them due."""

    def __init__(self, settings: Settings, client: Client, keys: Keys) -> None:
        self._settings = settings
        self._client = client
        self._keys = keys
        self._queries = ItemQueries(client, keys, settings.tracking_param_prefixes)
        self._links = FailedLinks(client, keys)

    async def run(self, request: ReindexRequest, folder: Path = ROOT, *, started_by: str = "script") -> ReindexResult:
        """Make the items that are meant due, and send the first jobs; raise FreshetError if there can be none."""
        marked = await self.make_due(
            await self.select(request, folder),
            force=request.force,
            parameters={name: redact(str(value)) for name, value in asdict(request).items() if value},
            started_by=started_by,
        )
        return await self._send(marked)

    async def run_items(
        self, item_ids: Sequence[str], *, parameters: Mapping[str, str], started_by: str, domain: str = ""
    ) -> ReindexResult:
        """Make just these items due, all of this domain if one is given, and send the first jobs."""
        selection = Selection(_one_batch(list(item_ids)), _one_batch([]), domain)
        return await self._send(
            await self.make_due(selection, force=False, parameters=parameters, started_by=started_by)
        )

    async def _send(self, marked: MarkedDue) -> ReindexResult:
        jobs, problem = 0, ""
        try:
            jobs = await asyncio.to_thread(send_jobs, self._settings, marked) if marked.first else 0
        except (RedisError, OSError) as error:
            problem = f"The queue's server does not answer ({type(error).__name__}); the timer brings them later."
        return ReindexResult(
            marked.items, len(marked.links), jobs, problem, marked.run_id, marked.waiting, marked.paused
        )

    # ── select ──

    async def select(self, request: ReindexRequest, folder: Path = ROOT) -> Selection:
        """Return the items that are meant; raise FreshetError, a sentence, if there can be none.

        `folder`: where a relative path in `name` begins.
        """
        _check_choice(request)
        if request.name is not None:
            return await self._select_one(request.name, request.force, folder)
        links = _one_batch([])
        if request.category is not None and request.force:
            links = self._links.in_category(request.category)
        domain = request.domain or domain_of_source(request.source or "")
        return Selection(await self._select_many(request), links, domain)

    async def _select_one(self, name: str, force: bool, folder: Path) -> Selection:
        resolved = await self._queries.resolve(name, folder)
        for row in await self._queries.summaries([resolved.item_id] if resolved.item_id else []):
            if not row.sources:
                raise FreshetError(f"{redact(name)} is gone, and no source lists it any more.")
            return Selection(_one_batch([row.item_id]), _one_batch([]), one_domain_of([row]))
        failed = await self._links.without_article([resolved.uid] if resolved.uid else [])
        if failed and force:
            return Selection(_one_batch([]), _one_batch(failed))
        if failed:
            failure = await StoreCounts(self._client, self._keys).failure(resolved.uid)
            why = "/".join(filter(None, (failure.code, failure.detail))) or "it gave no article"
            raise FreshetError(f"{redact(name)} is a link that was tried ({why}); --force tries it again.")
        raise NotFound(
            f"{redact(name)} is not in the registry. `python -m scripts.domain add URL` or a feed brings it in."
        )

    async def _select_many(self, request: ReindexRequest) -> AsyncIterator[list[str]]:
        queries = self._queries
        if request.category is not None:
            if not await queries.has_category(request.category):
                raise FreshetError(
                    f"There is no category {request.category}. `python -m scripts.status` shows what there is."
                )
            return queries.of_category(request.category)
        if request.domain is not None:
            domain = await DomainStore(self._client, self._keys).require(request.domain)
            return queries.of_sources(domain.sources)
        if request.source is not None:
            return queries.of_sources([await self._source(request.source)])
        if request.host is not None:
            return queries.of_host(request.host.lower(), self._settings.registry_partition_strategy)
        if request.status is not None:
            return queries.of_status(_status(request.status))
        return queries.stale() if request.stale else queries.of_all()

    async def _source(self, sid: str) -> str:
        if sid in (ARTICLES_SOURCE, URLS_SOURCE) or await SourceStore(self._client, self._keys).has(sid):
            return sid
        raise NotFound(f"There is no source {sid}. `python -m scripts.domain list` shows what there is.")

    # ── count ──

    async def count(self, selection: Selection) -> SelectionCounts:
        """Count a selection; nothing is changed."""
        counts = SelectionCounts()
        async for item_ids in selection.items:
            for row in await self._queries.summaries(item_ids):
                counts.items += 1
                counts.requests += row.type == "url"
                counts.hosts[row.host or "files"] += 1
                counts.statuses[row.status] += 1
        async for uids in selection.links:
            counts.links.update(uids)
        counts.requests += len(counts.links)
        return counts

    # ── mark ──

    async def make_due(
        self,
        selection: Selection,
        *,
        force: bool,
        parameters: Mapping[str, str] | None = None,
        started_by: str = "script",
    ) -> MarkedDue:
        """Make the selection due at once, as a run or as a part of the one that is open."""
        due, runs = DueItems(self._client, self._keys), RunStore(self._client, self._keys)
        left = ReindexRunItems(self._client, self._keys, Leases(self._client, self._keys))
        paused = PausedItems(self._queries, await runs.blocked())
        marked, run = MarkedDue(await connect.now(self._client), new_token()), None
        most = MOST_JOBS * self._settings.refresh_batch_items
        async for item_ids in selection.items:
            done = await due.make_due(item_ids, marked.now, force=force, token=marked.token)
            known = [item_id for item_id, is_known in zip(item_ids, done, strict=True) if is_known]
            if known and run is None:
                run = await open_reindex(runs, marked.now, parameters or {}, started_by, selection.domain)
            if run:
                marked.run_id = run.id
                await left.add(run, known, marked.now)
            marked.items += len(known)
            marked.first += (await paused.visitable(known))[: most - len(marked.first)]
        async for uids in selection.links:
            await self._links.retry(uids, marked.now)
            marked.links.update(uids)
        if run and paused.is_run_paused(run):
            marked.first, paused.count = [], marked.items
        marked.waiting, marked.paused = paused.count, paused.sentence(run, marked.items)
        return marked


def send_jobs(settings: Settings, marked: MarkedDue) -> int:
    """Send jobs for the first items; return how many. Raises RedisError or OSError where the queue is not there."""
    from core.runtime.job_queues import JobQueues  # here: marking items needs no RQ

    batch, sent = settings.refresh_batch_items, 0
    queues = JobQueues(settings)
    try:
        for start in range(0, len(marked.first), batch):
            item_ids = marked.first[start : start + batch]
            id_words = ("reindex", marked.token, str(start))
            arguments = (item_ids, marked.now, False, marked.run_id)
            sent += queues.enqueue("workers.jobs.reindex", *arguments, id_words=id_words)
    finally:
        queues.close()
    return sent


def _check_choice(request: ReindexRequest) -> None:
    named = (request.name, request.category, request.domain, request.source, request.host, request.status)
    chosen = sum(one is not None for one in named) + request.stale + request.all
    if chosen != 1:
        raise FreshetError(
            f"{'Nothing' if not chosen else 'More than one thing'} is named. Reindex one of: an item by its id, URL or "
            "path, a category, a domain, a source, a host, a status, stale, or all."
        )


def _status(word: str) -> Status:
    by_name = {str(status).lower(): status for status in Status}
    if word.lower() not in by_name:
        raise FreshetError(f"There is no status {word}; an item is one of {', '.join(Status)}.")
    return by_name[word.lower()]


async def _one_batch(names: Sequence[str]) -> AsyncIterator[list[str]]:
    if names:
        yield list(names)
