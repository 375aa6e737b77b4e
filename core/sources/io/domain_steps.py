"""The steps of a crawl on their own: which sources, what a crawl would do, read again, embed what waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.errors import FreshetError, NotFound
from core.registry.io.reindex import Reindexer, ReindexRequest
from core.runs.io.run_jobs import job_of, send_jobs
from core.runs.run import RunStatus
from core.runtime.context import Context
from core.search.io.embed_items import EmbedItems, open_embed
from core.search.io.embed_queue import EmbedQueue
from core.sources.domain_schema import SOURCES_SUFFIX, SourceRecord
from core.sources.io.crawl import CrawlMode
from core.sources.io.domain_store import DomainStore
from core.sources.io.domain_take_up import DomainTakeUp
from core.sources.io.dry_run import DryRunReport, dry_run_source
from core.store import connect

SHAREPOINT_TYPES = {"files": "file_sources", "lists": "list_sources", "sitepages": "sitepage_sources"}
"""By scope. No source of this version is one."""


class NoSharePointSource(FreshetError):
    """This is for SharePoint sources, and the domain has none."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step has set going."""

    items: int
    """Items that are due or wait."""
    jobs: int
    """Jobs that were sent; the timer brings what they do not name."""
    problem: str = ""
    """Why it does not begin at once."""
    run_ids: tuple[str, ...] = ()
    """The runs that do it, where there are any."""


class DomainSteps:
    """Runs steps over sources of a domain."""

    def __init__(self, context: Context, *, is_own_command: bool = False) -> None:
        """`is_own_command`: a person typed it, so the folders that an edited domain.json names may be read."""
        self._context = context
        self._take_up = DomainTakeUp(context.settings, context.client, context.keys, is_own_command=is_own_command)
        self._domains = DomainStore(context.client, context.keys)
        self._reindexer = Reindexer(context.settings, context.client, context.keys)

    async def select(
        self, domain_id: str, *, source: str | None = None, source_type: str | None = None, scope: str = "all"
    ) -> list[SourceRecord]:
        """Return the sources that are meant, by the domain.json of now; raise NotFound, a sentence, if there are none.

        Raises DomainFileError if that file cannot be used.
        """
        await self._take_up.one(domain_id)
        domain = await self._domains.require(domain_id)
        names = [domain.source_id(source)] if source is not None else list(domain.sources)
        found = [state.record for sid in names if (state := await self._context.sources.read(sid))]
        if scope != "all":
            source_type = source_type or SHAREPOINT_TYPES[scope]
        if source_type is not None:
            found = [record for record in found if f"{record.kind}{SOURCES_SUFFIX}" == source_type]
        if not found:
            raise NotFound(f"{domain_id} has no {source_type or 'sources'}{f' named {source}' if source else ''}.")
        return found

    async def require_sharepoint(self, domain_id: str) -> None:
        """Raise NoSharePointSource if the domain has no source whose metadata could be cleaned."""
        await self._domains.require(domain_id)
        raise NoSharePointSource(
            f"{domain_id} has no SharePoint source, so it has no files_metadata.json to clean. Web sites, folders and "
            "repositories keep nothing of an item that is gone."
        )

    async def preview(self, sources: Sequence[SourceRecord], mode: str) -> list[DryRunReport]:
        """Tell what a crawl would do; changes nothing."""
        return [await dry_run_source(self._context, record.sid, CrawlMode(mode)) for record in sources]

    async def read_again(self, sources: Sequence[SourceRecord], *, force: bool, dry_run: bool) -> StepResult:
        """Make the items of these sources due: they are checked, or with `force` read again."""
        requests = [ReindexRequest(source=record.sid, force=force) for record in sources]
        if dry_run:
            counts = [await self._reindexer.count(await self._reindexer.select(one)) for one in requests]
            return StepResult(sum(one.items for one in counts), 0)
        results = [await self._reindexer.run(one, started_by="api") for one in requests]
        return StepResult(
            items=sum(one.items for one in results),
            jobs=sum(one.jobs for one in results),
            problem=next((text for one in results if (text := one.queue_problem or one.paused)), ""),
            run_ids=tuple(dict.fromkeys(one.run_id for one in results if one.run_id)),
        )

    async def embed_waiting(self, domain_id: str, sources: Sequence[SourceRecord], *, dry_run: bool) -> StepResult:
        """Open a run over the texts of these sources that wait to be embedded, and send its job."""
        context, sids = self._context, [record.sid for record in sources]
        queue = EmbedQueue(context.client, context.keys)
        waiting, reason = await queue.count_in(sids), await queue.pause_reason()
        if dry_run or not waiting:
            return StepResult(waiting, 0, reason)
        now = await connect.now(context.client)
        run = await open_embed(context.runs, now, domain_id, "api")
        left = await EmbedItems(context.client, context.keys, run.id).add(sids)
        run = await context.runs.checked(run, now)
        if run.status is RunStatus.PAUSED:
            reason = f"{run.id} is paused, or its domain; whoever resumes that goes on with it."
        job = None if reason else job_of(run)
        return StepResult(left, await send_jobs(context.settings, [job]) if job else 0, reason, (run.id,))
