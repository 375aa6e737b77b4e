"""Pause, resume, cancel, retry and start runs, for scripts, the API and `core.api`."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from core.errors import FreshetError
from core.keys import Keys
from core.registry.io.reindex import Reindexer
from core.registry.record import iso
from core.runs.io.run_jobs import send_next
from core.runs.io.run_list import RunFilter, RunList
from core.runs.io.run_steps import RunSteps
from core.runs.io.run_store import KEPT
from core.runs.run import CHECK, FailedItem, Run, RunKind, RunStatus, domain_scope, source_scope
from core.settings import Settings
from core.sources.crawl_parameters import CrawlParameters
from core.sources.io.crawl_runs import ALL_OF_IT, CrawlMode, open_crawl_run
from core.sources.io.domain_store import DomainStore
from core.sources.io.source_kinds import source_class
from core.sources.io.source_store import SourceStore
from core.store import connect
from core.store.connect import Client
from core.value_class import value_class

MOST_RETRIED = 10_000
_OF_ITEMS = frozenset({RunKind.CRAWL, RunKind.REFRESH})
_HAS_MORE_LEFT = frozenset({RunStatus.CANCELLED, RunStatus.FAILED})


@value_class
class RetryResult:
    run: Run
    items: int


class RunControl:
    """Changes what runs do. A run that no process holds is continued by a job."""

    def __init__(self, settings: Settings, client: Client, keys: Keys) -> None:
        self._settings = settings
        self._client = client
        self._keys = keys
        self._steps = RunSteps(settings, client, keys)

    # ── one run ──

    async def pause(self, run_id: str) -> Run:
        """Ask for a pause: `pausing` until all its workers have acknowledged, then `paused`, also after a restart."""
        run = await self._steps.checked(run_id)
        if not run.is_open:
            raise FreshetError(f"{run.id} has ended ({run.status}); there is nothing to pause.")
        if run.status is RunStatus.CANCELLING:
            raise FreshetError(f"{run.id} is being cancelled; `resume` takes that back.")
        await self._steps.step("pause", run)
        await self._steps.check_children(run)
        return await self._steps.require(run_id)

    async def resume(self, run_id: str) -> Run:
        """Go on with a paused or interrupted run, or with an ended one from where it stopped; never a second one."""
        run = await self._steps.checked(run_id)
        if run.status is RunStatus.SUCCEEDED:
            if not await self._steps.clear_paused(run.scope):
                raise FreshetError(f"{run.id} has succeeded; there is nothing left to do. Start a new run instead.")
            return run
        await self._steps.refuse_if_domain_is_paused(run)
        if run.is_open:
            reply = await self._steps.step("resume", run)
            for child in await self._steps.children(run):
                if child.is_open:
                    await self._steps.step("resume", child)
        else:
            reply = await self._steps.reopen(run, await self._left_by_run(run))
        await self._steps.check_children(run)
        if not reply.working and not reply.waiting:
            if command := _by_hand(run):
                raise FreshetError(f"No process has {run.id} any more. Start it again, and it goes on: {command}")
            await self._steps.send_job(run_id)
        return await self._steps.require(run_id)

    async def _left_by_run(self, run: Run) -> dict[str, list[FailedItem]]:
        """Return which runs go on when an ended one is resumed, each with what it tries again.

        A cancelled crawl visits what was left; any other run that ended has nothing left but what failed. A reindex
        is about items that someone asked for, so it tries them again in any case.
        """
        parts = [one for one in await self._steps.children(run) if one.status is not RunStatus.SUCCEEDED]
        if run.status is RunStatus.CANCELLED:
            parts = [one for one in parts if one.status is RunStatus.CANCELLED]
        found = await self._failed_by_run([run, *parts])
        was_cut = [one.id for one in (run, *parts) if one.status is RunStatus.CANCELLED]
        return found if run.kind is RunKind.REINDEX else {**found, **{run_id: [] for run_id in was_cut}}

    async def cancel(self, run_id: str) -> Run:
        """End a run before its time: what is done stays, what is left stays due and is listed."""
        run = await self._steps.checked(run_id)
        if not run.is_open:
            raise FreshetError(f"{run.id} has ended ({run.status}); there is nothing to cancel.")
        await self._cancel(run)
        return await self._steps.require(run_id)

    async def _cancel(self, run: Run) -> None:
        await self._steps.step("cancel", run)
        for child in await self._steps.children(run):
            if child.is_open:
                await self._steps.step("cancel", child)
        if run.kind in (RunKind.CRAWL, RunKind.DOMAIN):
            await self._postpone_listings(run)
        if run.kind is RunKind.REINDEX:
            now, interval = await connect.now(self._client), self._settings.crawl_base_interval_seconds
            await self._steps.reindex_items().reschedule(run.id, now, interval)

    async def _postpone_listings(self, run: Run) -> None:
        """List the sources of a cancelled crawl by their schedule, not at the timer's next look."""
        now, sources = await connect.now(self._client), SourceStore(self._client, self._keys)
        domain = await DomainStore(self._client, self._keys).read(run.domain)
        for sid in [run.source] if run.source else domain.sources if domain else ():
            with contextlib.suppress(ValueError, FreshetError):  # it is gone, or its record is damaged
                state = await sources.read(sid)
                if state:
                    kind = source_class(state.record.kind)
                    wait = kind.listing_interval_seconds(state.record.config, self._settings)
                    await sources.postpone_listing(sid, now + wait)

    # ── a whole domain ──

    async def pause_domain(self, domain_id: str) -> list[Run]:
        """Pause everything of a domain, now and for whatever would start later; return its open runs."""
        await DomainStore(self._client, self._keys).require(domain_id)
        await self._pause_scope(domain_scope(domain_id), await self._open_runs(domain_id))
        runs = [await self._steps.checked(run.id) for run in await self._open_runs(domain_id)]
        await self._steps.save_state(domain_id)
        return runs

    async def resume_domain(self, domain_id: str) -> list[Run]:
        """Go on with everything of a domain that is paused; return its open runs.

        If nothing is paused or open and its last crawl was cancelled, that one goes on.
        """
        domain = await DomainStore(self._client, self._keys).require(domain_id)
        was_paused = await self._steps.clear_paused(domain_scope(domain_id), *map(source_scope, domain.sources))
        await self._steps.save_state(domain_id)
        runs = await self._open_runs(domain_id)
        if not was_paused and not runs:
            last = await self._last_crawl(domain_id)
            return [await self.resume(last.id)] if last and last.status is RunStatus.CANCELLED else []
        ids = {run.id for run in runs}
        for run in runs:
            reply = await self._steps.step("resume", run)
            if not reply.working and not reply.waiting and run.parent not in ids:
                await self._steps.send_job(run.id)
        return [await self._steps.require(run.id) for run in runs]

    async def cancel_domain(self, domain_id: str) -> list[Run]:
        """Cancel the open runs of a domain; return them."""
        await DomainStore(self._client, self._keys).require(domain_id)
        runs = await self._open_runs(domain_id)
        for run in runs:
            await self._cancel(run)
        return [await self._steps.require(run.id) for run in runs]

    async def _last_crawl(self, domain_id: str) -> Run | None:
        runs, now = RunList(self._client, self._keys), await connect.now(self._client)
        found = (await runs.page(RunFilter(domain=domain_id), now, KEPT)).runs
        return next((run for run in found if run.kind in (RunKind.DOMAIN, RunKind.CRAWL) and not run.parent), None)

    async def paused_since(self, domain_id: str) -> str:
        """Return since when a whole domain is paused; empty: it is not."""
        return str(await self._client.hget(self._keys.runs_paused, domain_scope(domain_id)) or "")

    async def _pause_scope(self, scope: str, runs: Sequence[Run]) -> None:
        """Pause a scope; what was asked of these runs before by the flag in Redis is done first, or it would end it."""
        for run in runs:
            await self._steps.step("check", run)
        await self._client.hsetnx(self._keys.runs_paused, scope, iso(await connect.now(self._client)))

    # ── all runs of a kind ──

    async def pause_kind(self, kind: RunKind) -> list[Run]:
        """Pause all runs of a kind, also those that would start later; return the open ones."""
        await self._pause_scope(str(kind), [run for run in await self._steps.open_runs() if run.kind is kind])
        return [await self._steps.checked(run.id) for run in await self._steps.open_runs() if run.kind is kind]

    async def resume_kind(self, kind: RunKind) -> list[Run]:
        """Go on with all runs of a kind; return the open ones."""
        await self._steps.clear_paused(str(kind))
        return [await self.resume(run.id) for run in await self._steps.open_runs() if run.kind is kind]

    # ── start and retry ──

    async def start_crawl(
        self,
        domain_id: str,
        mode: str = "incremental",
        *,
        source: str | None = None,
        started_by: str = "api",
        asked: CrawlParameters = ALL_OF_IT,
    ) -> Run:
        """Queue a crawl of a domain, or of one source of it; return its run: the open one, if someone works on that.

        Raises FreshetError if that one does not do what is asked for.
        """
        domain = await DomainStore(self._client, self._keys).require(domain_id)
        sid = domain.source_id(source) if source is not None else ""
        kind, scope = (RunKind.CRAWL, source_scope(sid)) if sid else (RunKind.DOMAIN, domain_scope(domain_id))
        now = await connect.now(self._client)
        known = await self._steps.store.open_run(scope, now)
        if known and known.kind is kind and await self._is_kept(known, now):
            _refuse_other_steps(known, asked)
            return known
        run = await open_crawl_run(
            *(self._steps.store, kind, CrawlMode(mode), now),
            domain=domain_id,
            source=sid,
            started_by=started_by,
            asked=asked,
        )
        if known and known.id == run.id:
            await self._steps.send_job(run.id)
        else:  # the job of a run that ended, or that this one took over, may have the id still
            await send_next(self._settings, run)
        return await self._steps.require(run.id)

    async def _is_kept(self, run: Run, now: float) -> bool:
        is_paused = run.status in (RunStatus.PAUSED, RunStatus.PAUSING)
        return is_paused or await self._steps.store.workers.is_at_work(run.scope, now)

    async def retry(self, run_id: str, *, code: str | None = None, since_ts: float | None = None) -> RetryResult:
        """Make items due that failed in a run, with this code or since then, and go on with the run over them.

        A run that was cancelled or has failed has more left than these: they are visited by a reindex of their own.
        """
        run = await self._steps.checked(run_id)
        owners = [run, *await self._steps.children(run)]
        failed = await self._failed_by_run(owners, code=code, since_ts=since_ts)
        alone = {one.id for one in owners if one.kind in _OF_ITEMS and one.status in _HAS_MORE_LEFT}
        chosen = {owner: items for owner, items in failed.items() if items and owner not in alone}
        items_alone = [item.item_id for owner in alone for item in failed[owner]]
        if not chosen and not items_alone:
            command = f"python -m scripts.runs show {run_id}"
            raise FreshetError(f"No item of {run_id} has failed that way; `{command}` lists those that have.")
        count = sum(map(len, chosen.values()))
        if run.is_open or run.status in _HAS_MORE_LEFT:
            for owner, items in chosen.items():
                await self._retry_open(await self._steps.require(owner), items)
        elif chosen:
            reply = await self._steps.reopen(run, chosen)
            if not reply.working and not reply.waiting:
                await self._steps.send_job(run.id, chosen.get(run.id, ()))
        if items_alone:
            reindexer = Reindexer(self._settings, self._client, self._keys)
            started = await reindexer.run_items(
                items_alone, parameters={"retry": run_id}, started_by="retry", domain=run.domain
            )
            run_id, count = started.run_id or run_id, count + started.items
        return RetryResult(await self._steps.require(run_id), count)

    async def _retry_open(self, run: Run, failed: Sequence[FailedItem]) -> None:
        """Try items again in a run that is open, or in a part of one, which may have ended."""
        if run.is_open:
            await self._steps.make_due(run, failed)
            reply = await self._steps.step("resume", run)
        else:
            reply = await self._steps.reopen(run, {run.id: failed})
        if not reply.working and not reply.waiting:
            await self._steps.send_job(run.id, failed)

    async def _failed_by_run(
        self, runs: Sequence[Run], *, code: str | None = None, since_ts: float | None = None
    ) -> dict[str, list[FailedItem]]:
        return {
            run.id: await self._steps.store.failed_items(run.id, code=code, since_ts=since_ts, most=MOST_RETRIED)
            for run in runs
        }

    async def _open_runs(self, domain_id: str) -> list[Run]:
        return [run for run in await self._steps.open_runs() if run.domain == domain_id]


def _refuse_other_steps(run: Run, asked: CrawlParameters) -> None:
    does = CrawlParameters.of(run.parameters)
    if not does.covers(asked.of_source() if run.source else asked):
        told = ", ".join(f"{name} {value}" for name, value in does.told().items() if value)
        raise FreshetError(
            f"{run.id} works on {run.scope} now, and does something else ({told}). Wait for its end, or cancel it."
        )


def _by_hand(run: Run) -> str:
    """Return the command with which a person goes on with a run; empty where a worker does."""
    if run.kind is RunKind.MIGRATION:
        return "python -m scripts.reindex --embeddings"
    if run.kind is RunKind.DOCTOR:
        return f"python -m scripts.doctor{'' if run.mode == CHECK else ' --fix'}"
    return ""
