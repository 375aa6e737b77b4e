"""List runs page by page, by kind, domain and status; find one by what a person typed; how its failures are spread.

Only the runs of a page are read whole: of the others, one script returns the three fields that decide.
"""

from __future__ import annotations

from core.errors import FreshetError
from core.keys import Keys
from core.registry import field_parsing
from core.runs.io.run_store import KEPT, RunStore
from core.runs.run import WITH_ITEMS, FailedItem, Run, RunKind, RunStatus, parse_failed_item, status_at
from core.store import connect
from core.store.connect import Client, texts
from core.store.pipeline import read_many
from core.value_class import value_class

MOST_LOOKED_AT = 1_000
"""Failed items of a run that are looked at for its groups."""
EXAMPLES = 5
MOST_NAMED = 5
LAST = "last"

# KEYS[1] runs by time · ARGV: how many, head of run keys, domain or ''. Returns id, status and heartbeat of each, the
# newest first.
_CANDIDATES = """
local found, head, domain = {}, ARGV[2], ARGV[3]
for _, id in ipairs(redis.call('ZREVRANGE', KEYS[1], 0, ARGV[1] - 1)) do
  local run = redis.call('HMGET', head .. id, 'status', 'heartbeat_ts', 'domain')
  if run[1] and (domain == '' or run[3] == domain) then
    found[#found + 1], found[#found + 2], found[#found + 3] = id, run[1], run[2] or ''
  end
end
return found
"""


@value_class
class RunFilter:
    """Which runs; empty: all."""

    kind: RunKind | None = None
    domain: str | None = None
    status: RunStatus | None = None

    def passes(self, run: Run) -> bool:
        is_kind = self.kind in (None, run.kind)
        return is_kind and self.domain in (None, run.domain) and self.status in (None, run.status)


@value_class
class RunPage:
    runs: tuple[Run, ...]
    has_more: bool


@value_class
class FailureGroup:
    """Items of a run that failed with the same code."""

    code: str
    count: int
    examples: tuple[FailedItem, ...]
    """The items that failed last."""


@value_class
class FailureGroups:
    """The failed items of a run by code, the largest group first."""

    total: int
    looked_at: int
    groups: tuple[FailureGroup, ...]


class RunList:
    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._runs = RunStore(client, keys)

    async def page(self, wanted: RunFilter, now: float, limit: int, offset: int = 0) -> RunPage:
        """Return runs that pass, newest first."""
        key = self._keys.runs_of_kind(str(wanted.kind)) if wanted.kind else self._keys.runs
        if wanted.domain is None and wanted.status is None:
            ids = texts(await self._client.zrange(key, offset, offset + limit, desc=True))
        else:
            ids = (await self._matching(key, wanted, now))[offset : offset + limit + 1]
        return RunPage(tuple(await self._runs.read_some(ids[:limit], now)), len(ids) > limit)

    async def _matching(self, key: str, wanted: RunFilter, now: float) -> list[str]:
        words = (str(KEPT), self._keys.run(""), wanted.domain or "")
        found = texts(await self._client.eval(_CANDIDATES, 1, key, *words))
        rows = zip(found[::3], found[1::3], found[2::3], strict=True)
        return [
            run_id
            for run_id, status, heartbeat in rows
            if wanted.status is None or _status(status, heartbeat, now) is wanted.status
        ]

    async def open(self, wanted: RunFilter, now: float) -> list[Run]:
        """Return the runs that pass and have not ended, newest first."""
        runs = await self._runs.read_some(list((await self._runs.open_ids()).values()), now)
        passing = [run for run in runs if run.is_open and wanted.passes(run)]
        return sorted(passing, key=lambda run: (-run.created_ts, run.id))

    async def failures(self, run: Run, now: float) -> FailureGroups:
        """Return what failed in a run and in its parts, by code, from the first thousand items of each."""
        parts = await self._runs.children(run.id, now) if run.kind is RunKind.DOMAIN else []
        keys = [self._keys.run_failed(one.id) for one in (run, *parts)]
        totals = await read_many(self._client, [("HLEN", key) for key in keys])
        items: dict[str, FailedItem] = {}
        for key, total in zip(keys, totals, strict=True):
            items |= await self._some_failed(key) if total else {}
        by_code: dict[str, list[FailedItem]] = {}
        for item in sorted(items.values(), key=lambda one: (-one.failed_ts, one.item_id)):
            by_code.setdefault(item.code, []).append(item)
        groups = (FailureGroup(code, len(some), tuple(some[:EXAMPLES])) for code, some in by_code.items())
        in_order = sorted(groups, key=lambda group: (-group.count, group.code))
        return FailureGroups(max(sum(totals), len(items)), len(items), tuple(in_order))

    async def _some_failed(self, key: str) -> dict[str, FailedItem]:
        found: dict[str, FailedItem] = {}
        async for item_id, text in self._client.hscan_iter(key, count=MOST_LOOKED_AT):
            found[str(item_id)] = parse_failed_item(str(item_id), field_parsing.mapping(text))
            if len(found) >= MOST_LOOKED_AT:
                break
        return found

    # ── one run ──

    async def find(self, name: str) -> Run:
        """Return the run of this id, of an id that begins or ends like this, or the `last` one.

        Raises FreshetError if there is none, or more than one.
        """
        now = await connect.now(self._client)
        run = await self._runs.read(name, now) if name else None
        if run:
            return run
        if name == LAST and (newest := await self._runs.newest(1, now)):
            return newest[0]
        ids = texts(await self._client.zrange(self._keys.runs, 0, KEPT - 1, desc=True)) if name else []
        matching = await self._runs.read_some([one for one in ids if one.startswith(name) or one.endswith(name)], now)
        if len(matching) > 1:
            some = ", ".join(one.id for one in matching[:MOST_NAMED])
            raise FreshetError(f"{name} may be any of {len(matching)} runs: {some}. Give more of the id.")
        return matching[0] if matching else await self._runs.require(name, now)

    async def left(self, run: Run, most: int) -> list[str]:
        """Return the first URLs that a run has left: due in its source, or in those of its parts, or asked for."""
        now = await connect.now(self._client)
        runs = [run] if run.source else await self._runs.children(run.id, now)
        places = [self._keys.due(sid) for sid in dict.fromkeys(one.source for one in runs if one.source)]
        places += [self._keys.run_items(run.id)] if run.kind in WITH_ITEMS else []
        urls: list[str] = []
        for place in places:
            room = most - len(urls)
            ids = texts(await self._client.zrange(place, "-inf", str(now), byscore=True, offset=0, num=room))
            rows = await read_many(self._client, [("HGET", self._keys.item(one), "displaySource") for one in ids])
            urls += [str(url) for url in rows if url]
        return urls[:most]


def _status(word: str, heartbeat: str, now: float) -> RunStatus:
    status = RunStatus(word) if word in set(RunStatus) else RunStatus.INTERRUPTED
    return status_at(status, field_parsing.timestamp(heartbeat), now)
