"""Print what a crawl or a step of it did, or would do, as tables and as JSON."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from core.outputs.vector_store.crawl_report import CrawledSource
from core.runs.run import COUNTERS
from core.runtime.terminal import echo
from core.sources.io.domain_steps import StepResult
from core.sources.io.dry_run_report import DryRunReport
from scripts.command_names import as_typed
from scripts.domain_report import message_of
from scripts.run_page import COUNTER_HEAD, end_of
from scripts.tables import table

DRY_RUN_HEAD = ("SOURCE", "KIND", "ADDS", "CHANGED", "REMOVED", "UNCHANGED", "REFUSED", "REQUESTS", "THE LISTING")
STEP_HEAD = ("SOURCE", "STEP", "ADDED", "CHANGED", "REMOVED", "UNCHANGED", "DONE", "FAILED", "SKIPPED", "IN 03_FAILED")
_STEPS = {"download": "downloaded", "process": "processed", "embed": "embedded"}
"""The steps of a source in its statistics, and the number that says what was done."""
_SIGNS = {"added": "+", "changed": "~", "removed": "-"}


def show_results(results: Sequence[CrawledSource], others: StepResult | None = None) -> None:
    """Print how the crawl of each source ended, and which jobs were sent for others."""
    if others:
        echo(f"Items of sources without steps: {others.items}. Jobs sent: {others.jobs}. {others.problem}".strip())
    if not results:
        return
    rows = [(one.sid, end_of(result_json(one)), *(one.counts.get(name, 0) for name in COUNTERS)) for one in results]
    echo(table(("SOURCE", "END", *COUNTER_HEAD), rows))
    steps = [row for one in results if one.run for row in _step_rows(one.sid, one.run.statistics)]
    if steps:
        echo(f"\n{table(STEP_HEAD, steps)}")
    for one in results:
        message = one.error or (message_of(one.run) if one.run else "")
        if message:
            echo(as_typed(message), file=sys.stderr if one.is_trouble else sys.stdout)


def _step_rows(sid: str, statistics: Mapping[str, Any]) -> list[tuple[object, ...]]:
    rows = []
    for step, done in _STEPS.items():
        counts = statistics.get(step)
        if isinstance(counts, dict) and any(counts.values()):
            numbers = (counts.get(name, "–") for name in ("added", "changed", "removed", "unchanged", done, "failed"))
            skipped = counts.get("skipped", counts.get("skipped_types", 0))
            rows.append((sid, step, *numbers, skipped, counts.get("in_failed_folder", "–")))
    return rows


def result_json(one: CrawledSource) -> dict[str, object]:
    return {
        "source": one.sid,
        "run": one.run.id if one.run else "",
        "status": str(one.status),
        "problem": one.problem,
        "message": one.error or (one.run.message if one.run else ""),
        "counts": dict(one.counts),
        "statistics": dict(one.run.statistics) if one.run else {},
    }


def step_json(results: Sequence[CrawledSource], others: StepResult | None) -> dict[str, object]:
    """Return what one step did: to sources with steps, and which jobs were sent for others."""
    return {"sources": [result_json(one) for one in results], "others": asdict(others) if others else None}


def preview_text(reports: Sequence[DryRunReport]) -> str:
    """Return what a crawl would do."""
    lines = [table(DRY_RUN_HEAD, [_preview_row(one) for one in reports])] if reports else []
    lines += [line for one in reports if one.source.has_steps for line in _planned_lines(one)]
    lines += [f"{one.source.sid}: {one.held}. Nothing would be removed without --yes." for one in reports if one.held]
    if any(one.source.follows_links for one in reports):
        lines.append("Of a site, pages that only links lead to are counted when they are found.")
    return "\n".join([*lines, "Nothing was changed."])


def _planned_lines(one: DryRunReport) -> list[str]:
    """Return what would be moved over the wire, and the first items that would change."""
    cost = f"{one.visits} downloads of {one.download_bytes:,} bytes, {one.uploads} files to embed"
    named = [f"  {_SIGNS[group]} {name}" for group in _SIGNS for name in one.names.get(group, ())]
    return [f"{one.source.sid}: {cost}", *named] if one.visits or named else []


def _preview_row(one: DryRunReport) -> tuple[object, ...]:
    sid, kind = one.source.sid, one.source.state.record.kind
    removed = one.removed if one.source.is_listing_evidence else "?"
    return (sid, kind, one.added, one.changed, removed, one.unchanged, one.refused, one.requests, one.how)
