"""Format runs: the page of `runs show`, rows of tables, and how the last listing of a source ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from core.registry import field_parsing
from core.runs.run import COUNTERS, FailedItem, Run, resume_command
from core.urls.secrets import redact
from scripts.command_names import command
from scripts.tables import ago, counted, span, table

HOW_CHARS = 60
COUNTER_HEAD = ("KNOWN", "VISITED", "CHANGED", "UNCHANGED", "GONE", "FAILED", "NOT FOR US")
RUN_HEAD = ("STARTED", "KIND", "WHAT", "MODE", "STATUS", *COUNTER_HEAD)
MOST_FAILED_SHOWN = 20
LOG_LINES_SHOWN = 20


def run_page(run: Run, failed: Sequence[FailedItem], left: Sequence[str], log: Sequence[str], now: float) -> str:
    return "\n".join([*_facts(run, now), *_failures(run, failed), *_left(run, left), *_log(log)])


def counts_of(run: Run) -> str:
    """Return the counters of a run that are not zero."""
    return ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in run.counts.items() if count)


def paused_lines(paused: Mapping[str, str]) -> list[str]:
    """Return a line for each domain and each kind of run that is paused, by scope and since when."""
    told = [(*scope.partition(":")[::2], since, resume_command(scope)) for scope, since in sorted(paused.items())]
    return [
        f"⏸️ {f'{kind} {name}' if name else f'All runs of the kind {kind}'} paused since {since}; `{resume}` goes on."
        for kind, name, since, resume in told
        if resume
    ]


def _facts(run: Run, now: float) -> list[str]:
    end = run.ended_ts or now
    facts = {
        "kind": f"{run.kind} of {run.source or run.domain}" if run.source or run.domain else str(run.kind),
        "mode": run.mode,
        "status": f"{run.status}, {run.progress} %, {run.phase}",
        "in flight": counted(run.in_flight, "item") if run.in_flight else "",
        "started": f"{ago(run.started_ts, now)} by {run.started_by or 'someone'}" if run.started_ts else "not yet",
        "took": span(end - run.started_ts) if run.started_ts else "",
        "heartbeat": ago(run.heartbeat_ts, now) if run.is_open else "",
        "counts": counts_of(run),
        "left": counted(run.left, "item") if run.left else "",
        "message": redact(run.message),
        "error": redact(run.error),
        "part of": run.parent,
        "receipt": run.receipt,
    }
    return [run.id, *(f"  {name:<10} {value}" for name, value in facts.items() if value)]


def _failures(run: Run, failed: Sequence[FailedItem]) -> list[str]:
    if not failed:
        return []
    codes = ", ".join(f"{count} {code}" for code, count in Counter(one.code for one in failed).most_common())
    rows = [(one.code, redact(one.url), redact(one.text)) for one in failed[:MOST_FAILED_SHOWN]]
    retry = f"Again: {command(f'runs retry {run.id}')}"
    return ["", f"{counted(len(failed), 'item')} failed: {codes}", table(("CODE", "URL", "WHY"), rows), retry]


def _left(run: Run, urls: Sequence[str]) -> list[str]:
    if not urls:
        return []
    again = f"Go on: {command(f'runs resume {run.id}')}"
    return ["", "Left, the first of them:", *(f"  {redact(url)}" for url in urls), again]


def _log(lines: Sequence[str]) -> list[str]:
    return ["", "The end of its log:", *lines[-LOG_LINES_SHOWN:]] if lines else []


# ── rows of tables ──


def how_it_ended(details: Mapping[str, str]) -> str:
    """Return how the last listing of a source ended, or what a person should do about it."""
    if details.get("held"):
        return f"🛑 {details['held']}"
    if details.get("full"):
        return f"🚧 {details['full']}"
    return details.get("last_listing", "")[:HOW_CHARS] or "–"


def run_row(run: Mapping[str, Any], now: float) -> tuple[object, ...]:
    """Return a run (`run_json`) as a row of a table."""
    started = ago(field_parsing.iso_timestamp(run["started_at"]) or 0.0, now)
    counts = (run["counts"].get(name, "–") for name in COUNTERS)
    return (started, run["kind"], run["source"] or run["domain"] or "–", run["mode"] or "–", end_of(run), *counts)


def end_of(run: Mapping[str, Any]) -> str:
    """Return the status of a run, with the reason where it is only partial."""
    return f"{run['status']} ({run['problem']})" if run.get("problem") else str(run["status"])
