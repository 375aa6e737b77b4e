"""Answers about sources and runs as text for a reader."""

from __future__ import annotations

from core.registry.time_formatting import ago
from core.sources.io.domain_overview import DomainOverview
from workers.mcp.models import FeedSummary, RunsAnswer, SourcesAnswer
from workers.web.job_models import Job


def of_sources(answer: SourcesAnswer, now: float) -> str:
    """Categories, domains and feeds, a line each."""
    lines = [
        "categories:",
        *(f"- {one.name}: {one.feeds} feeds, {one.links} links, {one.articles} articles" for one in answer.categories),
        "domains:",
        *(line for domain in answer.domains for line in _domain(domain, now)),
        f"feeds ({len(answer.feeds)} of {answer.feeds_total}):",
        *(_feed(one, now) for one in answer.feeds),
    ]
    return "\n".join(lines)


def _domain(domain: DomainOverview, now: float) -> list[str]:
    sources = [
        f"  - {one.id} ({one.kind}) {one.location}: {one.items} items, {one.due} due, listed "
        f"{ago(one.last_listed_ts or 0.0, now)}" + (f"; held: {one.held}" if one.held else "")
        for one in domain.sources
    ]
    paused = f" (paused since {domain.paused_since})" if domain.paused_since else ""
    return [f"- {domain.id}" + (f": {domain.name}" if domain.name else "") + paused, *sources]


def _feed(feed: FeedSummary, now: float) -> str:
    problem = f": {feed.error_text}" if feed.error_text else ""
    polled = f"polled {ago(feed.last_poll_ts, now)}" if feed.last_poll_ts else "never polled"
    return f"- {feed.url} ({', '.join(feed.categories)}) {feed.status}{problem}, {polled}"


def of_runs(answer: RunsAnswer, now: float) -> str:
    """Runs, then the log and what failed."""
    runs = [of_run(run, now) for run in answer.runs] or ["There are no such runs."]
    log = ["log:", *answer.log] if answer.log else []
    failed = [f"- {one.url}: {one.code} {one.text}" for one in answer.failed]
    more = [f"There are more: offset={answer.next_offset}"] if answer.next_offset else []
    return "\n".join([*runs, *log, *(["failed:", *failed] if failed else []), *more])


def of_run(run: Job, now: float) -> str:
    """One run."""
    what = " ".join(filter(None, (run.kind, run.source or run.domain)))
    counts = ", ".join(f"{count} {name}" for name, count in run.counts.items() if count)
    why = " · ".join(filter(None, (run.message, run.error, run.problem)))
    line = f"{run.id} {what}: {run.status}, {run.progress} %"
    return line + (f" ({counts})" if counts else "") + (f" · {why}" if why else "")
