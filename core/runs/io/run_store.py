"""Runs in Redis: opened, counted, listed. Every change of a status is one step of `run_step.lua`."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from core.errors import NotFound
from core.keys import Keys
from core.registry import field_parsing
from core.registry.io.due import HOLD_SECONDS
from core.registry.record import iso
from core.runs.io import run_scripts
from core.runs.io.run_worker_store import RunWorkerStore
from core.runs.io.state_store import KbStateStore
from core.runs.run import (
    COUNTERS,
    REFRESH_SECONDS,
    SILENT_SECONDS,
    WITH_ITEMS,
    FailedItem,
    Run,
    RunKind,
    RunStatus,
    domain_scope,
    parse_failed_item,
    parse_run,
    scope_of,
    with_parts,
)
from core.runs.run_request import BlockedScopes, RunReply, RunRequest
from core.runtime.log_capture import MOST_LINES
from core.store.connect import Client, HashFields, texts
from core.store.event_command import EVENTS_KEPT
from core.store.leases import DONE_MILLISECONDS, new_token
from core.store.packing import packed_json
from core.store.pipeline import read_many

KEPT = 1_000
KEPT_OF_KIND = 100
TTL_SECONDS = 30 * 86_400
FAILED_KEPT = 10_000
CHILD = "child:"
"""Fields of a domain's run that name the run of a source begin so."""
OnStep = Callable[[Run, float, str], Awaitable[None]]
"""Called with the run that took a step, the time, and the step: `beat`, `finish` and the like."""
_STOPPED = frozenset(RunStatus) - {RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.INTERRUPTED}


def new_run_id(now: float) -> str:
    """Return an id that sorts by time."""
    return f"jb_{int(now)}_{secrets.token_hex(4)}"


class RunStore:
    """Reads and writes `run:<id>` and the lists of runs."""

    def __init__(self, client: Client, keys: Keys, on_step: OnStep | None = None) -> None:
        """`on_step` is called after each step: it saves the state of the domain."""
        self._client = client
        self._keys = keys
        self._states = KbStateStore(client, keys)
        self._on_step = on_step
        self.workers = RunWorkerStore(client, keys)

    # ── open ──

    async def open(
        self,
        kind: RunKind,
        now: float,
        *,
        source: str = "",
        domain: str = "",
        mode: str = "",
        parent: str = "",
        started_by: str = "",
        parameters: Mapping[str, str] | None = None,
        counters: Sequence[str] = COUNTERS,
    ) -> tuple[Run, bool]:
        """Return the open run of this scope, or a new one that is queued and counts these; True if it is new."""
        run_id, scope = new_run_id(now), scope_of(kind, source, domain, mode)
        fields = {
            "id": run_id,
            "kind": str(kind),
            "scope": scope,
            "source": source,
            "domain": domain,
            "mode": mode,
            "parent": parent,
            "started_by": started_by,
            "parameters": json.dumps(dict(parameters or {})),
            "status": str(RunStatus.QUEUED),
            "control": "",
            "phase": "crawling",
            "progress": "0",
            "created_ts": f"{now:.3f}",
            "heartbeat_ts": f"{now:.3f}",
            **({"takes_until_ts": f"{now + REFRESH_SECONDS:.3f}"} if kind is RunKind.REFRESH else {}),
            **dict.fromkeys(counters, "0"),
        }
        keys = (self._keys.runs_open, self._keys.runs, self._keys.runs_of_kind(str(kind)), self._keys.runs_cancelled)
        ends_cancellation = str(int(kind is not RunKind.REFRESH))
        words = (scope, run_id, self._keys.run(""), str(now), TTL_SECONDS, KEPT, KEPT_OF_KIND, ends_cancellation)
        pairs = [word for pair in fields.items() for word in pair]
        opened = str(await self._client.eval(run_scripts.OPEN, len(keys), *keys, *map(str, words), *pairs))
        run = await self.require(opened, now)
        await self._states.follow(run, now)
        return run, opened == run_id

    async def open_run(self, scope: str, now: float) -> Run | None:
        """Return the run of this scope that has not ended, if there is one."""
        run_id = await self._client.hget(self._keys.runs_open, scope)
        run = await self.read(str(run_id), now) if run_id else None
        return run if run and run.is_open else None

    async def blocked(self) -> BlockedScopes:
        """Return the scopes that are paused or cancelled, and which runs are open."""
        keys = (self._keys.runs_paused, self._keys.runs_cancelled, self._keys.runs_open)
        paused, cancelled, opened = await read_many(self._client, [("HGETALL", key) for key in keys])
        return BlockedScopes(frozenset(paused), frozenset(cancelled), opened)

    async def paused(self) -> dict[str, str]:
        """Return every scope that is paused, and since when."""
        return cast(dict[str, str], await self._client.hgetall(self._keys.runs_paused))

    async def takes_jobs(self, run_id: str, now: float) -> bool:
        """Return whether the timer may send more jobs for a run.

        Not for a refresh that had its time: the next one follows it.
        """
        kind, until = await self._client.hmget(self._keys.run(run_id), ["kind", "takes_until_ts"])
        return kind != RunKind.REFRESH or now <= field_parsing.timestamp(until)

    async def count_jobs(self, run_id: str, jobs: int) -> None:
        """Count jobs that are about to be sent for a refresh; it ends when as many are done."""
        keys = (self._keys.run(run_id), self._keys.done(new_token()))
        await self._client.eval(run_scripts.COUNT_JOBS, len(keys), *keys, str(jobs), str(DONE_MILLISECONDS))

    async def open_ids(self) -> dict[str, str]:
        return cast(dict[str, str], await self._client.hgetall(self._keys.runs_open))

    # ── steps ──

    async def step(
        self,
        what: str,
        run: Run,
        now: float,
        *,
        token: str = "",
        worker: Mapping[str, object] | None = None,
        fields: Mapping[str, str] | None = None,
        status: str = "",
        lines: Sequence[str] = (),
    ) -> RunReply:
        """Take one step of `run_step.lua`, which says what each does; the state of the domain follows."""
        due_head, due_tail = self._keys.due("\n").split("\n")
        ask = {
            "id": run.id,
            "due_head": due_head,
            "due_tail": due_tail,
            "now": now,
            "stamp": f"{math.floor(now * 1000) / 1000:.3f}",  # rounded up, it would be later than what it began
            "iso": iso(now),
            "token": token,
            "worker": json.dumps(dict(worker or {})),
            "fields": dict(fields or {}),
            "status": status,
            "lines": list(lines),
            "head": self._keys.run(""),
            "source": run.source,
            "silent": SILENT_SECONDS,
            "job_hold": HOLD_SECONDS,
            "takes_until": f"{now + REFRESH_SECONDS:.3f}",
            "ttl": TTL_SECONDS,
            "marker_ttl": DONE_MILLISECONDS,
            "events_kept": EVENTS_KEPT,
            "lines_kept": MOST_LINES,
        }
        left = self._keys.run_items(run.id) if run.kind in WITH_ITEMS else self._keys.due(run.source)
        keys = (
            *(self._keys.run(run.id), self._keys.run_workers(run.id), self._keys.runs_paused, self._keys.runs_open),
            *(left, self._keys.events, self._keys.runs_cancelled),
            *(self._keys.run_log(run.id), self._keys.run_failed(run.id), self._keys.done(new_token())),
        )
        reply = cast(list[Any], await self._client.eval(run_scripts.STEP, len(keys), *keys, what, packed_json(ask)))
        await self._states.follow(run, now)
        if self._on_step:
            await self._on_step(run, now, what)
        state, request, working, waiting, other, failed = reply
        return RunReply(str(state), RunRequest(request), int(working), int(waiting), str(other), int(failed))

    async def is_stop_asked(self, run: Run) -> bool:
        """Tell by one small read whether someone asks for a pause or cancel; the next step says for which."""
        asked = [
            ("HMGET", self._keys.run(run.id), "control", "status"),
            ("HMGET", self._keys.runs_paused, run.scope, domain_scope(run.domain), str(run.kind)),
            ("HMGET", self._keys.run(run.parent), "control", "status"),
        ]
        own, paused, parent = await read_many(self._client, asked)
        stops = {"pause", "cancel", *(str(status) for status in _STOPPED)}
        return any(paused) or not stops.isdisjoint(own) or not {"cancel", "cancelling"}.isdisjoint(parent)

    async def finish(self, run: Run, status: RunStatus, now: float, fields: Mapping[str, str] | None = None) -> None:
        """End a run. One that has ended already stays as it is."""
        await self.step("finish", run, now, status=str(status), fields=fields)

    async def update(self, run_id: str, fields: Mapping[str, str]) -> None:
        await self._client.hset(self._keys.run(run_id), mapping=HashFields(fields))

    async def check_open(self, now: float) -> list[Run]:
        """Write down what became of open runs without their workers' help; return those that are open then."""
        found: list[Run] = []
        for scope, run_id in (await self.open_ids()).items():
            run = await self.read(run_id, now)
            if run is None:  # it has expired, or someone deleted it
                await self._client.hdel(self._keys.runs_open, scope)
                continue
            found.append(await self.checked(run, now))
        return [run for run in found if run.is_open]

    async def checked(self, run: Run, now: float) -> Run:
        """Note which workers of this machine are dead, and return the run as it is then."""
        workers = await self.workers.of(run.id)
        dead = [worker for worker in workers if worker.is_dead]
        for worker in dead:
            await self._client.eval(run_scripts.MARK_DEAD, 1, self._keys.run_workers(run.id), worker.token)
        if dead and len(dead) == len(workers):  # no other worker can show that it goes on
            await self.update(run.id, {"heartbeat_ts": f"{min(run.heartbeat_ts, now - SILENT_SECONDS - 1):.3f}"})
        await self.step("check", run, now)
        return await self.read(run.id, now) or run

    # ── children ──

    async def set_child(self, run_id: str, child: Run) -> None:
        await self.update(run_id, {f"{CHILD}{child.source}": child.id})

    async def children(self, run_id: str, now: float) -> list[Run]:
        """Return the crawls that belong to the run of a domain, in the order in which they began."""
        found = await self.read_some(_part_ids(await self.fields(run_id)), now)
        return sorted(found, key=lambda child: (child.created_ts, child.id))

    # ── read ──

    async def read(self, run_id: str, now: float) -> Run | None:
        """Return a run, or None; without a heartbeat it is interrupted."""
        return next(iter(await self.read_some([run_id], now)), None)

    async def read_some(self, run_ids: Sequence[str], now: float) -> list[Run]:
        """Return those of these runs that there are; an open one of a domain with what its parts do now."""
        hashes = await read_many(self._client, [("HGETALL", self._keys.run(run_id)) for run_id in run_ids])
        runs = [parse_run(run_id, fields, now) for run_id, fields in zip(run_ids, hashes, strict=True) if fields]
        parts = {
            run_id: _part_ids(fields)
            for run_id, fields in zip(run_ids, hashes, strict=True)
            if fields.get("kind") == RunKind.DOMAIN
        }
        return [
            with_parts(run, await self.read_some(parts[run.id], now)) if run.is_open and parts.get(run.id) else run
            for run in runs
        ]

    async def fields(self, run_id: str) -> dict[str, str]:
        """Return everything stored of a run."""
        return cast(dict[str, str], await self._client.hgetall(self._keys.run(run_id)))

    async def require(self, run_id: str, now: float) -> Run:
        """Return a run; raise NotFound if there is none of that id."""
        run = await self.read(run_id, now)
        if run is None:
            raise NotFound(f"There is no run {run_id}. `python -m scripts.runs list` shows the last ones.")
        return run

    async def newest(self, count: int, now: float, *, kind: RunKind | None = None) -> list[Run]:
        """Return the last runs, newest first: all, or those of a kind. `RunList` finds those of a domain."""
        key = self._keys.runs_of_kind(str(kind)) if kind else self._keys.runs
        run_ids = texts(await self._client.zrange(key, 0, count - 1, desc=True)) if count > 0 else []
        return await self.read_some(run_ids, now)

    async def log_lines(self, run_id: str) -> list[str]:
        """Return the last lines that the run logged, oldest first."""
        return texts(await self._client.lrange(self._keys.run_log(run_id), 0, -1))

    async def forget_domain(self, domain_id: str, runs: Sequence[Run]) -> None:
        """Remove the runs of a domain, and what is open, paused or cancelled of it."""
        names = ("run", "run_log", "run_failed", "run_workers", "run_items")
        scopes = {scope_of(RunKind.DOMAIN, domain=domain_id), *(run.scope for run in runs)}
        async with self._client.pipeline(transaction=True) as pipe:
            for run in runs:
                pipe.delete(*(getattr(self._keys, name)(run.id) for name in names))
                pipe.zrem(self._keys.runs, run.id)
                pipe.zrem(self._keys.runs_of_kind(str(run.kind)), run.id)
            for key in (self._keys.runs_open, self._keys.runs_paused, self._keys.runs_cancelled):
                pipe.hdel(key, *scopes)
            await pipe.execute()

    # ── failed items ──

    async def uncount_failed(self, run_id: str, count: int) -> None:
        """Take failed visits out of the counters of a run: they are made again, and counted then."""
        keys = (self._keys.run(run_id), self._keys.done(new_token()))
        await self._client.eval(run_scripts.UNCOUNT_FAILED, len(keys), *keys, str(count), str(DONE_MILLISECONDS))

    async def failed_items(
        self, run_id: str, *, code: str | None = None, since_ts: float | None = None, most: int = 1_000
    ) -> list[FailedItem]:
        """Return items that failed in the run, the last first: with this code, or since then."""
        return await self._failed_items([run_id], code, since_ts, most)

    async def all_failed_items(
        self, run: Run, now: float, *, code: str | None = None, since_ts: float | None = None, most: int = 1_000
    ) -> list[FailedItem]:
        """Return the same of a run and of its parts."""
        parts = await self.children(run.id, now) if run.kind is RunKind.DOMAIN else []
        return await self._failed_items([run.id, *(part.id for part in parts)], code, since_ts, most)

    async def _failed_items(
        self, run_ids: Sequence[str], code: str | None, since_ts: float | None, most: int
    ) -> list[FailedItem]:
        hashes = await read_many(self._client, [("HGETALL", self._keys.run_failed(run_id)) for run_id in run_ids])
        stored = {item_id: text for one in hashes for item_id, text in one.items()}
        items = [parse_failed_item(item_id, field_parsing.mapping(text)) for item_id, text in stored.items()]
        wanted = [one for one in items if code in (None, one.code) and one.failed_ts >= (since_ts or 0.0)]
        return sorted(wanted, key=lambda one: (-one.failed_ts, one.item_id))[:most]


def _part_ids(fields: Mapping[str, str]) -> list[str]:
    return [value for name, value in fields.items() if name.startswith(CHILD)]
