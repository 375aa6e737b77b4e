"""Buffer decided visits, so that many results are written in one commit.

A refresh in which nothing changed is a thousand small decisions; written one by one they would cost more than the
requests. They wait for seconds at most, however slow the visits are, and a stop writes what was decided before it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from redis.exceptions import RedisError

from core.errors import FailCode
from core.registry import decide, outcomes
from core.registry.decide import Decision, RecheckPolicy, VisitContext, VisitResult
from core.registry.io.item_store import LeasedItem
from core.registry.outcomes import Broken, Excluded, Missing, Moved, Outcome, Parked
from core.runs.io.run_tally import RunTally
from core.runtime.context import Context
from core.store import cancellation
from core.store.clock import ServerClock
from core.store.commands import Command
from core.store.leases import Commit, CommitResult
from core.value_class import value_class

log = logging.getLogger("refresh")

VISITS_PER_COMMIT = 100
COMMIT_SECONDS = 0.5
"""A decision is written after this at the latest, however few there are: a killed process visits few pages again."""
AGAIN_SECONDS = 2.0
"""An alias whose target has no text yet is visited again after this."""


@value_class
class Progress:
    """One item is done, for whoever watches."""

    item_id: str
    source: str
    count: VisitResult
    deleted: bool = False


@dataclass(slots=True)
class VisitReport:
    """What a visit found, before it is decided what that means for the record."""

    leased: LeasedItem
    """The item that was visited; of a new link, that of the page's canonical URL."""
    outcome: Outcome
    commands: Sequence[Command] = ()
    """Written beside the record: outlinks, snapshot, images."""
    target: VisitReport | None = None
    """Of an alias: the page that it leads to, which the same answer is about."""


@dataclass(slots=True)
class DecidedVisit:
    """A decision about a visit, and everything that is to be written."""

    leased: LeasedItem
    outcome: Outcome
    policy: RecheckPolicy
    visit_context: VisitContext
    chance: float
    decision: Decision
    commands: Sequence[Command] = ()
    """Beside what the decision says of the record: text, images, outlinks."""


class CommitBuffer:
    """Collects decided visits and commits them together."""

    def __init__(
        self,
        context: Context,
        clock: ServerClock,
        tally: RunTally | None = None,
        watch: Callable[[Progress], None] | None = None,
    ) -> None:
        """`tally`: of the run that the visits belong to."""
        self._context = context
        self._clock = clock
        self._tally = tally
        self._watch = watch
        self._visits: list[DecidedVisit] = []
        self._being_written = 0
        self._writing = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._late: asyncio.Task[None] | None = None
        """A commit that the timer started; the next `add` or `flush` raises its error."""
        self.counts: Counter[str] = Counter()
        self.decided = 0
        """How many visits were decided, written or not yet."""

    @property
    def waiting(self) -> int:
        """How many visits are decided and not yet written."""
        return len(self._visits) + self._being_written

    async def add(self, *visits: DecidedVisit) -> None:
        """Keep visits for the next commit, which comes when there are enough of them or after some seconds."""
        self._visits += visits
        self.decided += len(visits)
        if self._late and self._late.done():
            await self.flush()
        elif len(self._visits) >= VISITS_PER_COMMIT:
            await asyncio.shield(self._in_background(VISITS_PER_COMMIT))
        elif self._timer is None:
            self._start_timer()

    async def flush(self) -> None:
        """Write everything that waits."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        late, self._late = self._late, None
        if late:
            await asyncio.shield(late)
        # Shielded: a commit that is cancelled half way may or may not have been written, and nobody would know.
        await asyncio.shield(self._in_background())

    async def close(self) -> None:
        """After an interruption: write what was decided, or release it while the server is away."""
        with contextlib.suppress(RedisError, OSError):  # whatever interrupted us is reported already
            await cancellation.finish(self.flush())

    def _start_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(COMMIT_SECONDS, self._start_late)

    def _start_late(self) -> None:
        self._timer = None
        if self._late is None:
            self._late = self._in_background()

    def _in_background(self, fewest: int = 1) -> asyncio.Task[None]:
        task = asyncio.ensure_future(self._write_all(fewest))
        task.add_done_callback(lambda task: task.cancelled() or task.exception())  # nobody may be left to ask
        return task

    async def _write_all(self, fewest: int) -> None:
        """Write while at least so many wait. What is decided during a commit fills the next one, up to the timer."""
        async with self._writing:
            while len(self._visits) >= fewest:
                some, self._visits = self._visits[:VISITS_PER_COMMIT], self._visits[VISITS_PER_COMMIT:]
                self._being_written = len(some)
                try:
                    await self._write(some)
                except BaseException:
                    rest, self._visits = self._visits, []
                    await self._context.leases.release_many([visit.leased.lease for visit in (*some, *rest)])
                    raise
                finally:
                    self._being_written = 0
            if self._visits and self._timer is None:
                self._start_timer()

    async def _write(self, visits: Sequence[DecidedVisit]) -> None:
        """Write one commit; what was forced, listed or embedded meanwhile is decided once more."""
        while visits:
            counts = Counter(str(visit.decision.count) for visit in visits)
            commits = [self._commit(visit) for visit in visits]
            also = [*self._counted(counts), *self._succeeded(visits)]
            results = await self._context.leases.commit_many(commits, also)
            by_result: dict[CommitResult, list[DecidedVisit]] = {result: [] for result in CommitResult}
            for visit, result in zip(visits, results, strict=True):
                by_result[result].append(visit)
            self._report(by_result[CommitResult.WRITTEN])
            for visit in by_result[CommitResult.LEASE_LOST]:
                log.warning("⚠️ Lease lost, result discarded → %s", visit.leased.item.fetch_url)
            again = by_result[CommitResult.OUTDATED]
            await self._uncount([*by_result[CommitResult.LEASE_LOST], *again])
            await self._visit_again([visit for visit in again if isinstance(visit.outcome, Moved)])
            visits = [await self._decide_again(visit) for visit in again if not isinstance(visit.outcome, Moved)]

    def _commit(self, visit: DecidedVisit) -> Commit:
        item, outcome, generation = visit.leased.item, visit.outcome, visit.visit_context.generation
        commands = [*self._context.items.apply(item, visit.decision), *visit.commands, *self._of_run(visit)]
        expected = self._context.items.expected(item, item.generation if generation is None else generation)
        if isinstance(outcome, Moved):  # a page gives up its text only while its target has one
            expected += (self._context.keys.document(outcome.target_id), "content_hash", outcome.target_hash)
        return Commit(visit.leased.lease, commands, expected)

    async def _decide_again(self, visit: DecidedVisit) -> DecidedVisit:
        """Decide the same visit by what the record says now: it was forced, listed by another source or embedded."""
        current = await self._context.items.reread(visit.leased.item)
        item = replace(current, generation=visit.leased.item.generation)
        visit_context = replace(visit.visit_context, generation=current.generation)
        decision = decide.decide(item, visit.outcome, self._clock.now(), visit.chance, visit.policy, visit_context)
        leased = replace(visit.leased, item=item)
        return replace(visit, leased=leased, visit_context=visit_context, decision=decision)

    async def _visit_again(self, visits: Sequence[DecidedVisit]) -> None:
        """Aliases whose targets lost their text, or whose records changed, are due again in a moment."""
        until = self._clock.now() + AGAIN_SECONDS
        commits = [
            Commit(visit.leased.lease, self._context.items.postpone(visit.leased.item, until)) for visit in visits
        ]
        if commits:
            await self._context.leases.commit_many(commits)

    # ── counting and logging ──

    def _counted(self, counts: Counter[str]) -> list[Command]:
        total = {"visited": sum(counts.values()), **counts}
        commands = self._context.items.counted(total)
        if self._tally:
            commands += self._tally.counted(total)
        return commands

    def _of_run(self, visit: DecidedVisit) -> list[Command]:
        """Commands for the run, in the commit of the visit: that it was visited, and the reason of a failure."""
        outcome = visit.outcome
        if not self._tally:
            return []
        taken_out = self._tally.visited(visit.leased.item.id)
        if visit.decision.count is not VisitResult.FAILED:
            return taken_out
        code = FailCode.HTTP
        if isinstance(outcome, Missing | Broken | Excluded | Parked):
            code = outcomes.to_failure(outcome).code
        item, text = visit.leased.item, visit.decision.fields.get("errorMessage", "")
        return [*taken_out, *self._tally.failed(item.id, item.fetch_url, str(code), text, self._clock.now())]

    def _succeeded(self, visits: Sequence[DecidedVisit]) -> list[Command]:
        if not self._tally:
            return []
        done = [visit.leased.item.id for visit in visits if visit.decision.count is not VisitResult.FAILED]
        return self._tally.succeeded(done)

    async def _uncount(self, visits: Sequence[DecidedVisit]) -> None:
        """Take back what was counted with the commit and then not written; rare."""
        if visits:
            counts = Counter({str(visit.decision.count): 0 for visit in visits})
            counts.subtract(str(visit.decision.count) for visit in visits)
            await self._context.leases.run(self._counted(counts))

    def _report(self, written: Sequence[DecidedVisit]) -> None:
        """Count and log what was written: each page at debug level, one line for all failures of the commit."""
        self.counts.update(str(visit.decision.count) for visit in written)
        self.counts["visited"] += len(written)
        for visit in written if self._watch or log.isEnabledFor(logging.DEBUG) else ():
            item, decision = visit.leased.item, visit.decision
            if self._watch:
                self._watch(Progress(item.id, item.source, decision.count, decision.event == "item.gone"))
            log.debug(_LINES[decision.count], decision.fields.get("errorMessage", ""), item.fetch_url)
        failed = [visit for visit in written if visit.decision.count is VisitResult.FAILED]
        if failed:
            first = failed[0]
            log.warning(
                "⚠️ %d of %d failed%s: %s → %s",
                *(len(failed), len(written), ", for instance" if len(failed) > 1 else ""),
                *(first.decision.fields["errorMessage"], first.leased.item.fetch_url),
            )


_LINES = {
    VisitResult.CHANGED: "✅ Stored%.0s → %s",
    VisitResult.GONE: "🪦 Gone, %s → %s",
    VisitResult.FAILED: "⚠️ %s → %s",
    VisitResult.EXCLUDED: "🚫 %s → %s",
    VisitResult.UNCHANGED: "💤 Unchanged%.0s → %s",
}
