"""Runs: every pass over feeds, links or a source. Watch them, pause them, go on tomorrow.

python -m scripts.runs list                    the last runs; --kind crawl, --domain docs, --open
python -m scripts.runs show ID                 one run: counts, what failed and why, what is left, the end of its log
python -m scripts.runs watch ID                the same live, until it ends
python -m scripts.runs pause ID                finish what is in flight, then wait; survives restarts
python -m scripts.runs pause ingest            all runs of a kind, also the next ones: ingest, canonical, crawl, …
python -m scripts.runs resume ID               go on where it stopped; also after a cancel or a failure
python -m scripts.runs cancel ID               end it; what is done stays, what is left is listed
python -m scripts.runs retry ID                try the items again that failed
    --code FAIL_TIMEOUT --since 2h             only those

ID is an id (jb_…), the beginning or the end of one, or `last`.

Examples:
  python -m scripts.runs list --open
  python -m scripts.runs watch last
  python -m scripts.runs retry last --code FAIL_TIMEOUT --since 2h
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from dataclasses import asdict

from core.runs.io.run_control import RunControl
from core.runs.io.run_list import RunFilter, RunList
from core.runs.io.run_store import RunStore
from core.runs.run import Run, RunKind, RunStatus, run_json
from core.runtime import progress
from core.runtime.terminal import echo
from core.store import connect
from core.urls.secrets import redact
from scripts import command_line
from scripts.command_names import as_typed
from scripts.run_page import counts_of, paused_lines, run_page
from scripts.tables import ago, counted, span, table

HEAD = ("ID", "KIND", "OF", "STATUS", "DONE", "STARTED", "TOOK", "COUNTS")
MOST_LEFT_SHOWN = 20
WATCH_SECONDS = 0.5
_HAS_LEFT = frozenset(RunStatus) - {RunStatus.SUCCEEDED, RunStatus.RUNNING}


async def list_runs(kind: str | None, domain: str | None, is_open: bool, limit: int, json: bool) -> int:
    async with command_line.open_session() as (_, keys, client):
        now = await connect.now(client)
        runs, wanted = RunList(client, keys), RunFilter(RunKind(kind) if kind else None, domain)
        found = await runs.open(wanted, now) if is_open else (await runs.page(wanted, now, limit)).runs
        shown, paused = found[:limit], await RunStore(client, keys).paused()
    nothing = "No run is open." if is_open else "There is no run yet."
    page = table(HEAD, [_row(run, now) for run in shown]) if shown else nothing
    text = "\n".join([page, *(as_typed(line) for line in paused_lines(paused))])
    return command_line.answer([run_json(run) for run in shown], text, as_json=json)


def _row(run: Run, now: float) -> tuple[object, ...]:
    of = run.source or run.domain or "–"
    end = run.ended_ts or (now if run.is_open else run.heartbeat_ts)
    took = span(end - run.started_ts) if run.started_ts else "–"
    return (run.id, run.kind, of, run.status, f"{run.progress} %", ago(run.created_ts, now), took, counts_of(run))


# ── one run ──


async def show(run_id: str, json: bool) -> int:
    async with command_line.open_session() as (_, keys, client):
        run, store = await RunList(client, keys).find(run_id), RunStore(client, keys)
        failed = await store.all_failed_items(run, await connect.now(client))
        left = await RunList(client, keys).left(run, MOST_LEFT_SHOWN) if run.status in _HAS_LEFT else []
        log_lines, now = await store.log_lines(run.id), await connect.now(client)
    parts = {"failed_items": [asdict(one) for one in failed], "left_urls": left, "log": log_lines}
    page = run_page(run, failed, left, log_lines, now)
    return command_line.answer({**run_json(run), **parts}, page, as_json=json)


async def watch(run_id: str) -> int:
    """Show a run until it ends: a bar on a terminal, a line per change elsewhere."""
    async with command_line.open_session() as (_, keys, client):
        store, run = RunStore(client, keys), await RunList(client, keys).find(run_id)
        is_shown, line = sys.stderr.isatty(), ""
        with progress.bar(100, run.id) as bar:
            while True:
                run = await store.require(run.id, await connect.now(client))
                bar.n = run.progress
                bar.set_postfix_str(f"{run.status}, {run.phase} {counts_of(run)}")
                before, line = line, _live_line(run)
                if line != before and not is_shown:
                    echo(line)
                if not run.is_open:
                    break
                await asyncio.sleep(WATCH_SECONDS)
    if is_shown:
        echo(_live_line(run))
    return int(run.status is RunStatus.FAILED)


def _live_line(run: Run) -> str:
    in_flight = f", {run.in_flight} in flight" if run.status is RunStatus.PAUSING else ""
    words = (f"{run.id} {run.status}{in_flight} {run.progress} %", run.phase, counts_of(run), redact(run.message))
    return "  ".join(word for word in words if word)


# ── control ──


async def pause(run_id: str, json: bool) -> int:
    if run_id in set(RunKind):
        return await _control_kind(RunKind(run_id), RunControl.pause_kind, "paused", json)
    return await _control(run_id, lambda control, run: control.pause(run.id), json)


async def resume(run_id: str, json: bool) -> int:
    if run_id in set(RunKind):
        return await _control_kind(RunKind(run_id), RunControl.resume_kind, "no longer paused", json)
    return await _control(run_id, lambda control, run: control.resume(run.id), json)


async def cancel(run_id: str, json: bool) -> int:
    return await _control(run_id, lambda control, run: control.cancel(run.id), json)


async def _control(run_id: str, act: Callable[[RunControl, Run], Coroutine[object, object, Run]], json: bool) -> int:
    async with command_line.open_session() as (settings, keys, client):
        run = await act(RunControl(settings, client, keys), await RunList(client, keys).find(run_id))
    return command_line.answer(run_json(run), controlled(run), as_json=json)


async def _control_kind(
    kind: RunKind, act: Callable[[RunControl, RunKind], Coroutine[object, object, list[Run]]], word: str, json: bool
) -> int:
    async with command_line.open_session() as (settings, keys, client):
        runs = await act(RunControl(settings, client, keys), kind)
    text = "\n".join([f"Runs of the kind {kind} are {word}.", *(controlled(run) for run in runs)])
    return command_line.answer([run_json(run) for run in runs], text, as_json=json)


def controlled(run: Run) -> str:
    """Return what became of a run that someone paused, resumed or cancelled, and what comes next."""
    name = f"{run.id} ({run.source or run.domain or run.kind})"
    next_step = {
        RunStatus.PAUSING: f"{counted(run.in_flight, 'item')} in flight; `freshet runs watch {run.id}` shows the rest.",
        RunStatus.PAUSED: f"It stays so, also after a restart, until `freshet runs resume {run.id}`.",
        RunStatus.CANCELLED: f"{counted(run.left, 'item')} left; `freshet runs resume {run.id}` goes on.",
        RunStatus.QUEUED: "The next free worker takes it; `./scripts/up` has workers.",
        RunStatus.INTERRUPTED: "The next free worker takes it; `./scripts/up` has workers.",
    }.get(run.status, "")
    return as_typed(f"{name} is {run.status}. {next_step}".strip())


async def retry(run_id: str, code: str | None, since: str | None, json: bool) -> int:
    since_ts = command_line.moment(since)
    async with command_line.open_session() as (settings, keys, client):
        run = await RunList(client, keys).find(run_id)
        result = await RunControl(settings, client, keys).retry(run.id, code=code, since_ts=since_ts)
    text = f"Due again: {counted(result.items, 'item')}. {controlled(result.run)}"
    return command_line.answer({"run": run_json(result.run), "items": result.items}, text, as_json=json)


def main() -> int:
    parser = command_line.parser("python -m scripts.runs", __doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="the last runs")
    listing.add_argument("--kind", choices=[str(kind) for kind in RunKind])
    listing.add_argument("--domain", metavar="ID")
    listing.add_argument("--open", dest="is_open", action="store_true", help="only those that have not ended")
    listing.add_argument("--limit", type=int, default=20, metavar="N", help="how many at most")
    actions: dict[str, tuple[str, Callable[..., Coroutine[object, object, int]]]] = {
        "show": ("one run", show),
        "watch": ("one run, live", watch),
        "pause": ("finish what is in flight, then wait", pause),
        "resume": ("go on", resume),
        "cancel": ("end it", cancel),
        "retry": ("try failed items again", retry),
    }
    for name, (purpose, _) in actions.items():
        one = commands.add_parser(name, help=purpose)
        one.add_argument("run_id", metavar="ID")
        if name == "retry":
            one.add_argument("--code", metavar="CODE", help="only these, such as FAIL_TIMEOUT")
            one.add_argument("--since", metavar="TIME", help="only what failed since: 2h, 3d, a date")
        if name != "watch":
            one.add_argument("--json", action="store_true", help="for programs")
    listing.add_argument("--json", action="store_true", help="for programs")
    options = vars(parser.parse_args())
    name = options.pop("command")
    return command_line.run((list_runs if name == "list" else actions[name][1])(**options))


if __name__ == "__main__":
    sys.exit(main())
