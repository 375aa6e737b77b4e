"""Run single steps of a crawl: select sources, dry run, read again, embed what waits.

A source with copies of its own (`has_steps`) does each step in a crawl run that names it. For others, downloading is
crawling, processing is reading again what is known, and embedding is for texts that wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from core.errors import FreshetError, NotFound
from core.outputs.vector_store.io.domain_vector_store import OPENAI, open_store
from core.outputs.vector_store.io.metadata_file import clean_metadata
from core.outputs.vector_store.protocol import VectorStoreMissing
from core.registry.io.reindex import Reindexer, ReindexRequest
from core.runs.io.run_jobs import job_of, send_jobs
from core.runs.run import RunStatus
from core.runtime.context import Context
from core.search.io.embed_queue import EmbedQueue
from core.search.io.embed_run_items import EmbedRunItems, open_embed
from core.sources.crawl_parameters import ALL_STEPS, CrawlParameters
from core.sources.io.crawl import CrawlMode
from core.sources.io.domain_file_sync import DomainFileSync
from core.sources.io.domain_sources import select_sources, with_steps
from core.sources.io.domain_store import DomainStore
from core.sources.io.dry_run import dry_run_source
from core.sources.io.dry_run_report import DryRunReport
from core.sources.sharepoint.io.storage_paths import CrawlerStorage
from core.store import connect
from core.value_class import value_class


class NoSharePointSource(FreshetError):
    """This is for SharePoint sources, and the domain has none."""


@value_class
class ChosenSources:
    sids: tuple[str, ...]
    """All of them, in the order of the domain."""
    stepped: tuple[str, ...]
    """The sources that have steps of their own."""

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(sid for sid in self.sids if sid not in self.stepped)


@value_class
class StepResult:
    items: int
    """Items that are due or wait."""
    jobs: int
    """Jobs that were sent; the timer brings what they do not name."""
    problem: str = ""
    """Why it does not begin at once."""
    run_ids: tuple[str, ...] = ()
    """The runs that do it, where there are any."""


class DomainSteps:
    def __init__(self, context: Context, *, is_own_command: bool = False) -> None:
        """`is_own_command`: a person typed it, so the folders that an edited domain.json names may be read."""
        self._context = context
        self._domains = DomainStore(context.client, context.keys)
        self._reindexer = Reindexer(context.settings, context.client, context.keys)
        self._file_sync = DomainFileSync(context.settings, context.client, context.keys, is_own_command=is_own_command)
        self._started_by = "script" if is_own_command else "api"

    async def select(self, domain_id: str, asked: CrawlParameters) -> ChosenSources:
        """Return the sources that are meant, by the domain.json of now; raise NotFound, a sentence, if there are none.

        Raises DomainFileError if that file cannot be used.
        """
        await self._file_sync.one(domain_id)
        domain = await self._domains.require(domain_id)
        sids = await select_sources(self._context, domain, replace(asked, steps=frozenset(ALL_STEPS)))
        if not sids:
            types = "sources" if asked.source_types is None else asked.source_type or f"{asked.scope} sources"
            named = f" named {asked.source_id}" if asked.source_id else ""
            raise NotFound(f"{domain_id} has no {types}{named}.")
        return ChosenSources(tuple(sids), tuple(await with_steps(self._context, sids)))

    async def clean_metadata(self, domain_id: str, *, dry_run: bool = False) -> dict[str, int]:
        """Remove from files_metadata.json what no vector store and no map has any more, or only count it.

        Returns how many entries were `removed`, and how many are `remaining`.

        Raises NoSharePointSource if the domain has no such file, VectorStoreMissing if its store does not exist.
        """
        if not (await self.select(domain_id, CrawlParameters())).stepped:
            raise NoSharePointSource(
                f"{domain_id} has no SharePoint source, so it has no files_metadata.json to clean. Web sites, folders "
                "and repositories keep nothing of an item that is gone."
            )
        choice = (await self._domains.require(domain_id)).vector_store
        if choice.index == OPENAI and not choice.id:
            raise VectorStoreMissing(f"{domain_id} has no vector store yet; its first crawl makes one.")
        storage = CrawlerStorage.of(self._context.settings)
        async with open_store(self._context, domain_id) as store:
            return await clean_metadata(store, storage, domain_id, dry_run=dry_run)

    async def require_store(self, domain_id: str) -> None:
        """Raise VectorStoreMissing if the domain names a vector store at OpenAI that does not exist."""
        choice = (await self._domains.require(domain_id)).vector_store
        if choice.index == OPENAI and choice.id:
            async with open_store(self._context, domain_id):
                return  # it was asked for when it was opened

    async def preview(self, sids: Sequence[str], mode: str) -> list[DryRunReport]:
        return [await dry_run_source(self._context, sid, CrawlMode(mode)) for sid in sids]

    async def read_again(self, sids: Sequence[str], *, force: bool, dry_run: bool) -> StepResult:
        """Make the items of these sources due: they are checked, or with `force` read again."""
        requests = [ReindexRequest(source=sid, force=force) for sid in sids]
        if dry_run:
            counts = [await self._reindexer.count(await self._reindexer.select(one)) for one in requests]
            return StepResult(sum(one.items for one in counts), 0)
        results = [await self._reindexer.run(one, started_by=self._started_by) for one in requests]
        return StepResult(
            items=sum(one.items for one in results),
            jobs=sum(one.jobs for one in results),
            problem=next((text for one in results if (text := one.queue_problem or one.paused)), ""),
            run_ids=tuple(dict.fromkeys(one.run_id for one in results if one.run_id)),
        )

    async def embed_waiting(self, domain_id: str, sids: Sequence[str], *, dry_run: bool) -> StepResult:
        """Open a run over the texts of these sources that wait to be embedded, and send its job."""
        context = self._context
        queue = EmbedQueue(context.client, context.keys)
        waiting, reason = await queue.count_in(sids), await queue.pause_reason()
        if dry_run or not waiting:
            return StepResult(waiting, 0, reason)
        now = await connect.now(context.client)
        run = await open_embed(context.runs, now, domain_id, self._started_by)
        left = await EmbedRunItems(context.client, context.keys, run.id).add(sids)
        run = await context.runs.checked(run, now)
        if run.status is RunStatus.PAUSED:
            reason = f"{run.id} is paused, or its domain; whoever resumes that goes on with it."
        job = None if reason else job_of(run)
        return StepResult(left, await send_jobs(context.settings, [job]) if job else 0, reason, (run.id,))
