"""The report of a crawl: what it was asked to do, how long it took, and what it did to each source.

Pure: names and values. `io/report_archive.py` keeps them with snapshots of the map files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from core.runs.run import Run, RunStatus
from core.sources.crawl_parameters import ALL, SCOPES, CrawlParameters
from core.sources.sharepoint.crawler_config import CRAWLER_HARDCODED_CONFIG as CFG
from core.sources.sharepoint.time_stamps import utc_text
from core.sources.source_record import SOURCES_SUFFIX
from core.urls.secrets import redact
from core.value_class import value_class

TYPE = CFG.PERSISTENT_STORAGE_PATH_CRAWL_REPORTS_SUBFOLDER
"""What the ids of these reports begin with, and their folder."""
STAMP = "%Y-%m-%d_%H-%M-%S"
_NAME = re.compile(
    rf"(?P<stamp>\d{{4}}-\d\d-\d\d_\d\d-\d\d-\d\d)_(?P<domain>[A-Za-z0-9][A-Za-z0-9_-]{{0,62}})"
    rf"_(?P<scope>{'|'.join((ALL, *SCOPES))})_(?P<mode>full|incremental)"
)


@value_class
class ReportName:
    created_ts: float
    """In whole seconds."""
    domain_id: str
    scope: str
    mode: str

    @property
    def id(self) -> str:
        """`crawls/2025-01-15_14-25-00_TEST01_all_full`."""
        return f"{TYPE}/{self.name}"

    @property
    def name(self) -> str:
        """The same without the type."""
        stamp = datetime.fromtimestamp(int(self.created_ts), UTC).strftime(STAMP)
        return f"{stamp}_{self.domain_id}_{self.scope}_{self.mode}"

    @classmethod
    def parse(cls, text: str) -> ReportName | None:
        """Return the name that an id, a name or a file has; None if no report can have it."""
        match = _NAME.fullmatch(text.removeprefix(f"{TYPE}/").removesuffix(".zip"))
        if match is None:
            return None
        try:
            moment = datetime.strptime(match["stamp"], STAMP).replace(tzinfo=UTC)
        except ValueError:
            return None
        return cls(moment.timestamp(), match["domain"], match["scope"], match["mode"])


@value_class
class CrawledSource:
    sid: str
    kind: str
    run: Run | None
    error: str = ""
    """Why there was none: the source cannot be opened."""

    @property
    def status(self) -> RunStatus:
        return self.run.status if self.run else RunStatus.FAILED

    @property
    def problem(self) -> str:
        """Why it is only partial."""
        return self.run.problem if self.run else ""

    @property
    def counts(self) -> Mapping[str, int]:
        return self.run.counts if self.run else {}

    @property
    def is_trouble(self) -> bool:
        """Whether a person should look at it: it failed, its listing was incomplete, or the loss guard held it."""
        return bool(self.error or self.problem or self.status is RunStatus.FAILED)


def is_reported(run: Run) -> bool:
    """Return whether a run gets a report at its end.

    Not a single step, not a crawl by schedule, not a part of another.
    """
    return not run.parent and run.mode in ("full", "incremental") and CrawlParameters.of(run.parameters).is_whole_crawl


def report_json(
    name: ReportName,
    run: Run,
    status: RunStatus,
    ended_ts: float,
    sources: Sequence[CrawledSource],
    files: Sequence[str],
) -> dict[str, Any]:
    """Return what report.json says. Times are ISO 8601 in UTC; nothing secret is in it."""
    asked = CrawlParameters.of(run.parameters)
    parameters: dict[str, Any] = {**asked.told(), "retry_batches": asked.retry_batches}
    if run.source:
        parameters["source_id"] = run.source.removeprefix(f"{run.domain}.")
    return {
        "report_id": name.id,
        "type": "crawl",
        "domain_id": run.domain,
        "run_id": run.id,
        "status": str(status),
        "ok": status is RunStatus.SUCCEEDED,
        "created_utc": utc_text(name.created_ts),
        "parameters": {"domain_id": run.domain, "mode": run.mode, "dry_run": False, **parameters},
        "timing": {
            "requested_utc": _utc(run.created_ts),
            "started_utc": _utc(run.started_ts),
            "ended_utc": utc_text(ended_ts),
            "seconds": round(max(ended_ts - (run.started_ts or run.created_ts), 0.0), 3),
        },
        "started_by": run.started_by,
        "sources": [_source_json(one, run.domain) for one in sources],
        "files": list(files),
    }


def _source_json(one: CrawledSource, domain_id: str) -> dict[str, Any]:
    """Return the statistics of one source: the counters of its run, and the statistics of its steps if it has any."""
    run = one.run
    told: Mapping[str, Any] = run.statistics if run else {}
    error = one.error or str(told.get("error", "")) or (run.error if run else "")
    return {
        "source_id": one.sid.removeprefix(f"{domain_id}."),
        "source_type": f"{one.kind}{SOURCES_SUFFIX}",
        "run_id": run.id if run else "",
        "status": str(one.status),
        "problem": one.problem,
        "message": redact(run.message) if run else "",
        "error": redact(error),
        "seconds": _seconds(run, told),
        "counts": dict(one.counts),
        **{name: told[name] for name in ("download", "process", "embed", "coverage") if name in told},
    }


def _seconds(run: Run | None, told: Mapping[str, Any]) -> float:
    if run is None:
        return 0.0
    seconds = run.ended_ts - run.started_ts if run.ended_ts and run.started_ts else told.get("seconds", 0.0)
    return round(max(float(seconds), 0.0), 3)


def _utc(stamp: float) -> str:
    return utc_text(stamp) if stamp else ""
