"""What visits have decided and not yet written: many results in one commit.

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

from core.registry import decide
from core.registry.decide import Decision, RecheckPolicy, VisitContext, VisitResult
from core.registry.io.items import LeasedItem
from core.registry.outcomes import Moved, Outcome
from core.runtime.context import Context
from core.store import cancellation
from core.store.clock import ServerClock
from core.store.commit import Command, Commit, CommitResult

log = logging.getLogger("refresh")

WORKS_PER_COMMIT = 100
COMMIT_SECONDS = 2.0
"""A decision is written at the latest after this, however few there are."""
AGAIN_SECONDS = 2.0
"""An alias whose page has no text yet is visited again after this."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One item came to its end, for whoever watches."""

    item_id: str
    source: str
    count: VisitResult
    deleted: bool = False


@dataclass(slots=True)
class DecidedVisit:
    """A visit that came to its end, and all that is to be written of it."""

    leased: LeasedItem
    outcome: Outcome
    policy: RecheckPolicy
    around: VisitContext
    chance: float
    decision: Decision
    commands: Sequence[Command] = ()
    """Sidecar what the decision says of the record: text, images, outlinks."""


class CommitBuffer:
    """Collects entries and commits them together."""

    def __init__(
        self, context: Context, clock: ServerClock, run_id: str = "", watch: Callable[[Progress], None] | None = None
    ) -> None:
        self._context = context
        self._clock = clock
        self._run_id = run_id
        self._watch = watch
        self._entries: list[DecidedVisit] = []
        self._writing = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._late: asyncio.Task[None] | None = None
        """A commit that the timer began; whoever comes next hears of its trouble."""
        self.counts: Counter[str] = Counter()
        self.decided = 0
        """How many visits came to their end, written or not yet."""

    async def add(self, *entries: DecidedVisit) -> None:
        """Keep it for the next commit, which comes when there are enough of them or after some seconds."""
        self._entries += entries
        self.decided += len(entries)
        if len(self._entries) >= WORKS_PER_COMMIT or (self._late and self._late.done()):
            await self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(COMMIT_SECONDS, self._begin)

    async def flush(self) -> None:
        """Write everything that waits."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        late, self._late = self._late, None
        if late:
            await asyncio.shield(late)
        # Shielded: a commit that is cancelled half way has been written or not, and nobody would know.
        await asyncio.shield(self._in_background())

    async def close(self) -> None:
        """Broken off: what was decided is written all the same; with the server away it is given back."""
        with contextlib.suppress(RedisError, OSError):  # whatever broke us off is told already
            await cancellation.finish(self.flush())

    def _begin(self) -> None:
        self._timer = None
        if self._late is None:
            self._late = self._in_background()

    def _in_background(self) -> asyncio.Task[None]:
        task = asyncio.ensure_future(self._write_all())
        task.add_done_callback(lambda task: task.cancelled() or task.exception())  # nobody may be left to ask
        return task

    async def _write_all(self) -> None:
        async with self._writing:
            while self._entries:
                some, self._entries = self._entries[:WORKS_PER_COMMIT], self._entries[WORKS_PER_COMMIT:]
                try:
                    await self._write(some)
                except BaseException:
                    rest, self._entries = self._entries, []
                    await self._context.leases.release_many([entry.leased.lease for entry in (*some, *rest)])
                    raise

    async def _write(self, entries: Sequence[DecidedVisit]) -> None:
        """One commit; what was forced or embedded meanwhile is decided once more."""
        while entries:
            counts = Counter(str(entry.decision.count) for entry in entries)
            also = self._counted(counts)
            answers = await self._context.leases.commit_many([self._work(entry) for entry in entries], also)
            again = []
            for entry, answer in zip(entries, answers, strict=True):
                match answer:
                    case CommitResult.WRITTEN:
                        self._tell(entry)
                    case CommitResult.OUTDATED:
                        again.append(entry)
                    case CommitResult.LEASE_LOST:
                        log.warning("⚠️ Lease lost, result discarded → %s", entry.leased.item.fetch_url)
            _tell_failures([e for e, answer in zip(entries, answers, strict=True) if answer is CommitResult.WRITTEN])
            await self._uncount(entries, answers)
            await self._make_due_again([entry for entry in again if isinstance(entry.outcome, Moved)])
            entries = [await self._once_more(entry) for entry in again if not isinstance(entry.outcome, Moved)]

    def _counted(self, counts: Counter[str]) -> list[Command]:
        total = {"visited": sum(counts.values()), **counts}
        commands = self._context.items.counted(total)
        if self._run_id:
            commands += self._context.runs.counted(self._run_id, total, self._clock.now())
        return commands

    async def _uncount(self, entries: Sequence[DecidedVisit], answers: Sequence[CommitResult]) -> None:
        """What was counted with the commit and then refused: rare, and set right."""
        refused = [e for e, answer in zip(entries, answers, strict=True) if answer is not CommitResult.WRITTEN]
        if refused:
            counts = Counter({str(entry.decision.count): 0 for entry in refused})
            counts.subtract(str(entry.decision.count) for entry in refused)
            await self._context.leases.run(self._counted(counts))

    def _work(self, entry: DecidedVisit) -> Commit:
        item, outcome = entry.leased.item, entry.outcome
        generation = item.generation if entry.around.generation is None else entry.around.generation
        commands = [*self._context.items.apply(item, entry.decision), *entry.commands]
        expected = self._context.items.expected(item, generation)
        if isinstance(outcome, Moved):  # a page gives up its text only while its target has one
            expected += (self._context.keys.document(outcome.target_id), "content_hash", outcome.target_hash)
        return Commit(entry.leased.lease, commands, expected)

    async def _once_more(self, entry: DecidedVisit) -> DecidedVisit:
        """Somebody raised the generation, which makes it due again at once, another source lists the page now, or a
        worker has made it known to search: the same visit, decided by what the record says now."""
        now_known = await self._context.items.moved_on(entry.leased.item)
        item = replace(now_known, generation=entry.leased.item.generation)
        around = replace(entry.around, generation=now_known.generation)
        decision = decide.decide(item, entry.outcome, self._clock.now(), entry.chance, entry.policy, around)
        leased = replace(entry.leased, item=item)
        return replace(entry, leased=leased, around=around, decision=decision)

    async def _make_due_again(self, entries: Sequence[DecidedVisit]) -> None:
        """Their targets have no text any more, or their records moved on: visited again in a moment."""
        until = self._clock.now() + AGAIN_SECONDS
        postpone = [Commit(e.leased.lease, self._context.items.postpone(e.leased.item, until)) for e in entries]
        if postpone:
            await self._context.leases.commit_many(postpone)

    def _tell(self, entry: DecidedVisit) -> None:
        item, decision = entry.leased.item, entry.decision
        self.counts[str(decision.count)] += 1
        self.counts["visited"] += 1
        is_deleted = decision.event == "item.gone"
        if self._watch:
            self._watch(Progress(item.id, item.source, decision.count, is_deleted))
        # Each page for whoever looks closely; the run or job sums up.
        log.debug(_LINES[decision.count], decision.fields.get("errorMessage", ""), item.fetch_url)


_LINES = {
    VisitResult.CHANGED: "✅ Stored%.0s → %s",
    VisitResult.GONE: "🪦 Gone, %s → %s",
    VisitResult.FAILED: "⚠️ %s → %s",
    VisitResult.EXCLUDED: "🚫 %s → %s",
    VisitResult.UNCHANGED: "💤 Unchanged%.0s → %s",
}


def _tell_failures(written: Sequence[DecidedVisit]) -> None:
    """One line for all of a commit."""
    failed = [entry for entry in written if entry.decision.count is VisitResult.FAILED]
    if failed:
        first = failed[0]
        log.warning(
            "⚠️ %d of %d failed%s: %s → %s",
            *(len(failed), len(written), ", for instance" if len(failed) > 1 else ""),
            *(first.decision.fields["errorMessage"], first.leased.item.fetch_url),
        )
