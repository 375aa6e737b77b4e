"""Run the checks of `checks.lua`, which find and repair in one step."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

from core.doctor.invariants import Finding, Problem
from core.errors import FailCode
from core.keys import Keys
from core.registry.record import ARTICLES_SOURCE, URLS_SOURCE, Status, iso
from core.settings import Settings
from core.store import connect
from core.store.connect import Client, texts
from core.store.key_families import key_families
from core.store.leases import CRASH_MEMORY_SECONDS, LEASE_SECONDS
from core.store.packing import packed_json
from core.store.quarantine import QUARANTINE_SECONDS

AT_ONCE = 500
DAY_SECONDS = 86_400
SLACK_SECONDS = 600.0
"""How long an entry that a worker prunes may be past its time before it is reported."""
LONGEST_LEASE_SECONDS = 1_800.0
LONGEST_WAIT_SECONDS = 40 * DAY_SECONDS

WITH_TTL = frozenset(
    {
        *("lease", "crashes", "done", "gate", "gate_line", "gate_busy", "robots", "entry", "failure", "run"),
        *("snapshot", "version_texts", "embed_cache", "alias", "content", "duplicates", "quarantined"),
    }
)
"""Families whose keys expire. Sets that anybody may add to get their TTL in the next cycle."""


class LuaCheck(NamedTuple):
    """A check: what is wrong where the invariant does not hold, the names to look at, and the script."""

    problem: Problem
    where: str
    script: str


def _load() -> Iterator[LuaCheck]:
    prelude, *parts = re.split(r"^--- (\w+): (\w+)$", (Path(__file__).parent / "checks.lua").read_text(), flags=re.M)
    for problem, where, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        script = f"{prelude}\nfor _, name in ipairs(args.names) do\n{body}\nend\nreturn found"
        yield LuaCheck(Problem[problem], where, script)


CHECKS = tuple(_load())
MISPLACED = next(check for check in CHECKS if check.problem is Problem.MISPLACED)
ORPHAN_CHUNK = next(check for check in CHECKS if check.problem is Problem.ORPHAN_CHUNK)


class LuaChecks:
    """Runs checks on names, and again on what they found."""

    problems = frozenset(check.problem for check in CHECKS)

    def __init__(self, client: Client, keys: Keys, settings: Settings) -> None:
        self._client = client
        families = list(key_families(keys))
        self._args = {
            "keys": {one.name: one.head for one in families},
            "tails": {one.name: one.tail for one in families},
            "before_hash": keys.embed_cache("\n", "\n").split("\n")[1],
            "built_in": {ARTICLES_SOURCE: True, URLS_SOURCE: True},
            "statuses": {str(status): True for status in Status},
            "codes": {str(code): True for code in FailCode},
            "ttls": _ttls(settings),
        }
        self._any_key = keys.version

    async def run(self, check: LuaCheck, names: Sequence[str], now: float = 0.0, *, fix: bool = False) -> list[str]:
        """Return those of the names for which the invariant does not hold; with `fix` it holds afterwards.

        `now` only matters to checks that compare times.
        """
        wrong: list[str] = []
        for start in range(0, len(names), AT_ONCE):
            args = self._args | {"names": names[start : start + AT_ONCE], "fix": fix, "now": now, "iso": iso(now)}
            reply = await self._client.eval(check.script, 1, self._any_key, packed_json(args))
            wrong += texts(cast(list[str], reply))
        return wrong

    async def check(self, names: Mapping[str, Sequence[str]]) -> list[Finding]:
        """Run all checks on names, by where they stand."""
        now = await connect.now(self._client)
        return [
            Finding(check.problem, name, check.where)
            for check in CHECKS
            for name in await self.run(check, names.get(check.where, ()), now)
        ]

    async def recheck(self, findings: Sequence[Finding]) -> list[Finding]:
        return await self._run_again(findings, await connect.now(self._client))

    async def repair(self, findings: Sequence[Finding], now: float) -> None:
        await self._run_again(findings, now, fix=True)

    async def _run_again(self, findings: Sequence[Finding], now: float, *, fix: bool = False) -> list[Finding]:
        still: list[Finding] = []
        for check in CHECKS:
            own = [one.name for one in findings if (one.problem, one.place) == (check.problem, check.where)]
            still += [Finding(check.problem, name, check.where) for name in await self.run(check, own, now, fix=fix)]
        return still

    async def repair_items(self, item_ids: Sequence[str], now: float) -> None:
        """Make all invariants of these records true."""
        for check in CHECKS:
            if check.where == "item":
                await self.run(check, item_ids, now, fix=True)


def _ttls(settings: Settings) -> dict[str, float]:
    """Seconds that things are kept, by family and for comparisons."""
    article, attempted, day = settings.article_ttl_seconds, settings.attempted_ttl_seconds, DAY_SECONDS
    return {
        "article": article,
        "alias": article,
        "content": article,
        "duplicates": article,
        "attempted": attempted,
        "failure": attempted,
        "entry": settings.link_ttl_seconds,
        "lease": int(LEASE_SECONDS),
        "longest_lease": LONGEST_LEASE_SECONDS,
        "crashes": CRASH_MEMORY_SECONDS,
        "done": 60,
        "gate": day,
        "gate_line": 600,
        "gate_busy": 600,
        "robots": day,
        "run": 30 * day,
        "snapshot": int(max(settings.snapshot_days, 1) * day),
        "version_texts": int(max(settings.snapshot_days, 1) * day),
        "embed_cache": 30 * day,
        "quarantined": QUARANTINE_SECONDS,
        "quarantine": QUARANTINE_SECONDS,
        "longest_wait": max(LONGEST_WAIT_SECONDS, settings.crawl_max_interval_seconds * 1.5),
        "slack": SLACK_SECONDS,
    }


def counters(keys: Keys) -> list[str]:
    """Hash, total and parts of every sum that has to add up, as the check wants them; parts before what they make."""
    new = ("new", "stored", "failed", "retry", "alias", "duplicate", "deferred")
    sums = [
        (keys.canonical_stats, *new),
        (keys.canonical_stats, "found", "new", "known", "rejected"),
        (keys.ingest_stats, "links_found", "links_new", "links_known", "links_rejected"),
        (keys.refresh_stats, "visited", "changed", "unchanged", "gone", "failed", "excluded"),
    ]
    return ["\n".join(words) for words in sums]
