"""The steps that pause, resume, cancel and retry share: set a run's status, reopen it, make items due, send its job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from core.errors import FreshetError
from core.feeds.io.feed_store import FeedStore
from core.feeds.io.link_store import FailedLinks, Ttls
from core.keys import Keys
from core.registry.io.due import DueItems
from core.registry.io.reindex_run_items import ReindexRunItems
from core.runs.io.run_jobs import RunJob, job_of, send_jobs
from core.runs.io.run_store import RunStore
from core.runs.io.state_saver import StateSaver
from core.runs.run import FailedItem, Run, RunKind, domain_scope
from core.runs.run_request import RunReply, RunRequest
from core.settings import Settings
from core.sources.io.crawl_runs import end_refresh
from core.store import connect
from core.store.connect import Client
from core.store.leases import Leases

AT_ONCE = 1_000


class RunSteps:
    """Reads and changes runs for someone who asks."""

    def __init__(self, settings: Settings, client: Client, keys: Keys) -> None:
        self._settings = settings
        self._client = client
        self._keys = keys
        self._saver = StateSaver(settings, client, keys)
        self.store = RunStore(client, keys, self._saver.save_step)

    # ── read ──

    async def require(self, run_id: str) -> Run:
        """Return a run; raise NotFound if there is none of that id."""
        return await self.store.require(run_id, await connect.now(self._client))

    async def checked(self, run_id: str) -> Run:
        """Return a run as it is without workers that are known to be dead."""
        run = await self.require(run_id)
        return await self.store.checked(run, await connect.now(self._client)) if run.is_open else run

    async def children(self, run: Run) -> list[Run]:
        is_domain = run.kind is RunKind.DOMAIN
        return await self.store.children(run.id, await connect.now(self._client)) if is_domain else []

    async def check_children(self, run: Run) -> None:
        """Write down what became of the parts of a run."""
        for child in await self.children(run):
            await self.checked(child.id)

    async def open_runs(self) -> list[Run]:
        now = await connect.now(self._client)
        found = [await self.store.read(run_id, now) for run_id in (await self.store.open_ids()).values()]
        return [run for run in found if run and run.is_open]

    # ── change ──

    async def step(self, what: str, run: Run) -> RunReply:
        return await self.store.step(what, run, await connect.now(self._client))

    async def clear_paused(self, *scopes: str) -> int:
        """Let what was paused be worked on again; return how much of it was."""
        return int(await self._client.hdel(self._keys.runs_paused, *scopes))

    async def save_state(self, domain_id: str) -> None:
        """Save the state of a domain: it can be paused and resumed without a run."""
        await self._saver.save_crawl(domain_id, await connect.now(self._client))

    async def refuse_if_domain_is_paused(self, run: Run) -> None:
        """Raise FreshetError if a run can only be resumed with its whole domain."""
        is_part = run.domain and run.kind is not RunKind.DOMAIN
        if is_part and await self._client.hexists(self._keys.runs_paused, domain_scope(run.domain)):
            command = f"python -m scripts.domain resume {run.domain}"
            raise FreshetError(f"The whole domain {run.domain} is paused: {command}")

    async def reopen(self, run: Run, failed: Mapping[str, Sequence[FailedItem]]) -> RunReply:
        """Open an ended run again, and those of its parts that are named, with items that failed in each.

        Raises FreshetError if another run has its place.
        """
        reply = await self.step("resume", run)
        if reply.request is RunRequest.TAKEN:
            other = await self.require(reply.other)
            if other.kind is not RunKind.REFRESH:
                raise FreshetError(f"{other.id} works on {run.scope} now; resume that one, or wait for its end.")
            await end_refresh(self.store, other, await connect.now(self._client))
            reply = await self.step("resume", run)
        await self.make_due(run, failed.get(run.id, ()))
        if run.kind is RunKind.REINDEX:
            await self.reindex_items().make_due_again(run.id, await connect.now(self._client))
        for child in await self.children(run):
            if not child.is_open and child.id in failed:
                await self.reopen(child, failed)
        return reply

    async def make_due(self, run: Run, failed: Sequence[FailedItem]) -> int:
        """Make failed items of a run due; return how many there still are."""
        client, keys, now = self._client, self._keys, await connect.now(self._client)
        names = [one.item_id for one in failed]
        if run.kind is RunKind.INGEST:  # a second poll is another poll, and counts as one
            await FeedStore(client, keys, Ttls.of(self._settings)).make_due([one.url for one in failed])
            return len(failed)
        if run.kind is RunKind.CANONICAL:
            await FailedLinks(client, keys).retry(names, now)
            return len(failed)
        due, count = DueItems(client, keys), 0
        for start in range(0, len(names), AT_ONCE):
            some = names[start : start + AT_ONCE]
            known = [item_id for item_id, is_known in zip(some, await due.make_due(some, now), strict=True) if is_known]
            count += len(known)
            if run.kind is RunKind.REINDEX:
                await self.reindex_items().add(run, known, now, are_known=True)
        if count:  # visited again, they are counted again
            await self.store.uncount_failed(run.id, count)
        return count

    def reindex_items(self) -> ReindexRunItems:
        return ReindexRunItems(self._client, self._keys, Leases(self._client, self._keys))

    async def send_job(self, run_id: str, failed: Sequence[FailedItem] = ()) -> None:
        """Send what continues a run: its job, or of a refresh jobs for the items that failed."""
        run = await self.require(run_id)
        job = job_of(run)
        if run.kind is RunKind.REFRESH and failed:
            await self._send_failed(run, [one.item_id for one in failed])
        elif job:
            await send_jobs(self._settings, [job])

    async def _send_failed(self, run: Run, item_ids: Sequence[str]) -> None:
        now, batch = await connect.now(self._client), self._settings.refresh_batch_items
        batches = [list(item_ids[start : start + batch]) for start in range(0, len(item_ids), batch)]
        words = ("refresh", run.id, str(int(now)))
        jobs = [
            RunJob("workers.jobs.refresh", [some, now, run.source, run.id], (*words, str(place)))
            for place, some in enumerate(batches)
        ]
        await self.store.count_jobs(run.id, len(jobs))
        await send_jobs(self._settings, jobs)
