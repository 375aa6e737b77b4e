"""Find what does not fit together in the store, and repair it.

python -m scripts.doctor          report; writes nothing but its run
python -m scripts.doctor --fix    repair; what cannot be derived again is quarantined (freshet:quarantine)
python -m scripts.doctor --stores [--fix]    compare the vector stores of OpenAI with the map files as well

Exit code 0: nothing is wrong, or everything is repaired. 1: something is left. 2: the store could not be checked.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from core.doctor.invariants import Problem
from core.doctor.io.doctor import Doctor
from core.doctor.io.doctor_run import GoOn, check_as_run, repair_as_run
from core.doctor.io.vector_store_checks import StoreTrouble, VectorStoreChecks
from core.keys import Keys
from core.runs.io.pass_run import PassStopped
from core.runtime import progress
from core.runtime.terminal import echo
from core.search.io.embed_queue import EmbedQueue
from core.search.io.searcher import open_searcher
from core.settings import Settings
from core.store import connect
from core.store.guarded_clients import GuardedClient
from scripts import command_line
from scripts.command_names import as_typed
from scripts.tables import counted

EXAMPLES = 5
STORE_INVARIANT = "vector stores"


@dataclass(slots=True)
class Report:
    """What was found, and what became of it."""

    findings: Counter[str] = field(default_factory=Counter)
    invariants: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    """What only a person can judge or change."""
    examples: list[dict[str, str]] = field(default_factory=list)
    replica: dict[str, int] = field(default_factory=dict)
    healed: int = 0
    left: int = 0
    by_hand: int = 0
    """How many of those left are vector stores that only a person can set right."""
    waiting: int = 0
    """Pages that wait for an embed worker now."""
    unreadable: int = 0
    """Keys that are still of another type; as long as there are, not all pages can be read for a comparison."""

    def counts(self, checked: int) -> dict[str, int]:
        found = self.healed + self.left
        return {
            "checked": checked,
            "found": found,
            "healed": self.healed,
            "unhealed": self.left,
            "healable": found - self.by_hand,
        }

    def add(self, wrong: str, invariant: str, name: str) -> None:
        """Take a finding."""
        self.findings[wrong] += 1
        self.invariants[invariant] += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append({"item": name, "invariant": invariant, "wrong": wrong})

    def as_json(self) -> dict[str, object]:
        names = ("findings", "invariants", "examples", "notes", "replica", "healed", "left", "waiting")
        return {name: getattr(self, name) for name in names}


async def doctor(*, fix: bool, as_json: bool, stores: bool = False) -> int:
    """Print what is wrong; exit code 1 if something is left."""
    report = Report()
    try:
        await _examine(report, fix, stores)
    except PassStopped:
        stays = "What is healed stays healed; the same command checks the rest." if fix else "Nothing was changed."
        echo(f"Cancelled. {stays}", file=sys.stderr)
        return 1
    command_line.answer(report.as_json(), as_typed(_page(report, fix)), as_json=as_json)
    return 1 if report.left else 0


async def _examine(report: Report, fix: bool, stores: bool) -> None:
    async with command_line.open_session() as (settings, keys, client):
        if isinstance(client, GuardedClient):
            client.guard(keys, is_read_only=not fix)
        doctor = Doctor(client, keys, settings)
        counts = lambda: report.counts(doctor.checked)  # noqa: E731
        as_run = repair_as_run(client, keys, counts) if fix else check_as_run(client, keys, counts, report.notes.append)
        async with as_run as go_on:
            await _check(doctor, client, report, go_on, fix=fix)
            if stores:
                await _compare_stores(VectorStoreChecks(client, keys, settings), report, go_on, fix=fix)
        report.notes += await doctor.warnings()
        if doctor.unknown:
            names = ", ".join(doctor.unknown)
            report.notes.append(f"Keys that are none of Freshet's (the server may be shared): {names}")
        if not report.unreadable:
            await _compare_replica(settings, keys, client, report, fix)
        report.waiting = await EmbedQueue(client, keys).count()


async def _check(doctor: Doctor, client: connect.Client, report: Report, go_on: GoOn, *, fix: bool) -> None:
    """Check in batches: there may be more wrong than fits into memory."""
    with progress.bar(0, "Looking") as bar:
        async for findings in doctor.check_all():
            await go_on()
            bar.update(doctor.checked - bar.n)
            for one in findings:
                report.add(str(one.problem), one.problem.invariant, one.name)
            if fix:
                await doctor.repair(findings, await connect.now(client))
            left = await doctor.recheck(findings) if fix else findings
            report.left += len(left)
            report.healed += len(findings) - len(left)
            report.unreadable += sum(one.problem is Problem.WRONG_TYPE for one in left)


async def _compare_stores(checks: VectorStoreChecks, report: Report, go_on: GoOn, *, fix: bool) -> None:
    """Compare vector stores with map files; one that cannot be compared is left."""
    async for found in checks.check_all(fix=fix):
        await go_on()
        if isinstance(found, StoreTrouble):
            report.notes.append(found.sentence)
            report.left += 1
            report.by_hand += not found.is_busy
            continue
        report.add(str(found.problem), STORE_INVARIANT, found.name)
        report.healed += found.is_healed
        report.left += not found.is_healed


async def _compare_replica(settings: Settings, keys: Keys, client: connect.Client, report: Report, fix: bool) -> None:
    """Count pages that the replica lacks or has too many, against the live versions in Redis."""
    async with open_searcher(settings, client, keys) as searcher:
        report.replica = await searcher.follower.compare(fix=fix)
        wrong = left = _differ(report.replica)
        if fix and wrong:  # another process may hold its writer lock
            left = min(_differ(await searcher.follower.compare()), wrong)
    report.left += left
    report.healed += wrong - left


def _differ(replica: Mapping[str, int]) -> int:
    return replica["missing"] + replica["extra"]


def _page(report: Report, fix: bool) -> str:
    replica = report.replica
    lines = [f"{count:6}  {wrong}" for wrong, count in report.findings.items()] or ["Registry, texts and chunks agree."]
    lines += [f"Note: {note}" for note in report.notes]
    lines.append(
        f"Replica: {replica['pages']} pages, {replica['chunks']} chunks, "
        f"{replica['missing']} pages missing, {replica['extra']} too many"
        if replica
        else "Replica: not compared, as long as a key is of another type"
    )
    lines += _end(report, fix)
    if fix and report.waiting:
        lines.append(
            f"{counted(report.waiting, 'page')} {'waits' if report.waiting == 1 else 'wait'} for an embed worker."
        )
    return "\n".join(lines)


def _end(report: Report, fix: bool) -> list[str]:
    """Return the last lines: what was repaired, what is left, and what repairs that."""
    lines, left = [], report.left - report.by_hand
    if fix and left:
        lines.append(f"Healed: {report.healed}. Left: {left}, which others are at just now; run it again in a minute.")
    elif fix and report.healed:
        lines.append(f"Healed: {report.healed}.{'' if report.by_hand else ' Nothing is left.'}")
    elif left:
        lines.append(
            f"`python -m scripts.doctor{' --stores' if report.invariants[STORE_INVARIANT] else ''} --fix` heals it."
        )
    if report.by_hand:
        stores = counted(report.by_hand, "vector store")
        lines.append(f"{stores} could not be compared, which `--fix` cannot heal; the notes say what to do.")
    return lines


def main() -> int:
    parser = command_line.parser("python -m scripts.doctor", __doc__)
    parser.add_argument("--fix", action="store_true", help="set right what is wrong")
    parser.add_argument("--stores", action="store_true", help="compare vector stores of OpenAI too; asks OpenAI")
    parser.add_argument("--json", action="store_true", help="for programs")
    given = parser.parse_args()
    return command_line.run(doctor(fix=given.fix, as_json=given.json, stores=given.stores))


if __name__ == "__main__":
    sys.exit(main())
