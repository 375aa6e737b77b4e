"""The record of a run: kind, status, counters.

A run is one pass: an ingest cycle, a crawl, a reindex. It is stored in `run:<id>` and can be watched, paused, resumed
and cancelled. Reads no clock, opens no connection.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from dataclasses import fields as dataclass_fields
from enum import StrEnum
from typing import Any, TypeVar

from core.registry import field_parsing
from core.registry.record import iso
from core.value_class import value_class

COUNTERS = ("discovered", "visited", "changed", "unchanged", "gone", "failed", "excluded")
"""Counters of a run that visits items; `visited = changed + unchanged + gone + failed + excluded`."""
SILENT_SECONDS = 90.0
"""A run, or a worker of it, without a heartbeat for this long was interrupted."""
REFRESH_SECONDS = 3600.0
"""How long a refresh takes in what becomes due; what comes later is for the next one. So it ends even where
something is always due."""
CHECK = "check"
"""Mode of a doctor's run that only looks."""
Word = TypeVar("Word", bound=StrEnum)


class RunKind(StrEnum):
    """Kind of a run."""

    INGEST = "ingest"
    """One cycle of the ingestor over the feeds that are due."""
    CANONICAL = "canonical"
    """One run of the canonical fetcher."""
    CRAWL = "crawl"
    """One pass over a source: list, visit, remove."""
    DOMAIN = "domain"
    """The crawls of a domain's sources, one after the other; their runs name it as their parent."""
    REFRESH = "refresh"
    """Jobs of the timer over one source, until nothing of it is due; those of an hour at most."""
    REINDEX = "reindex"
    """Items that someone asked for: of one domain, or of any."""
    EMBED = "embed"
    """Texts of one domain that wait for it, because someone asked for them."""
    REBUILD = "rebuild"
    """The due sets or the chunks of the whole store, made anew."""
    MIGRATION = "migration"
    """All texts into another vector space."""
    DOCTOR = "doctor"
    """A check of the whole store, or a check and repair."""


class RunStatus(StrEnum):
    """Status of a run."""

    QUEUED = "queued"
    """Requested; no worker has begun it."""
    RUNNING = "running"
    PAUSING = "pausing"
    """A pause was requested; workers finish the items they have in flight."""
    PAUSED = "paused"
    """Every worker has acknowledged the pause. Survives restarts."""
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    SUCCEEDED = "succeeded"
    PARTIAL = "partial"
    """It came to its end, but items failed, the listing was incomplete or the loss guard held removals back."""
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    """Its heartbeat stopped. The timer takes it up again."""


WITH_ITEMS = frozenset({RunKind.REINDEX, RunKind.EMBED})
"""Kinds whose runs have a list of what is left of them, `run:<id>:items`."""
ENDED = frozenset({RunStatus.CANCELLED, RunStatus.SUCCEEDED, RunStatus.PARTIAL, RunStatus.FAILED})
"""No worker has such a run, and none will unless a person asks for it."""
AT_WORK = frozenset({RunStatus.RUNNING, RunStatus.PAUSING, RunStatus.CANCELLING})
"""Workers of such a run have items in hand."""


class RunPhase(StrEnum):
    """Phase of a run, in this order."""

    CRAWLING = "crawling"
    PROCESSING = "processing"
    INDEXING = "indexing"
    DONE = "done"


ProgressCallback = Callable[[RunPhase, int, str, Mapping[str, float]], None]
"""Called with phase, percent, message and metrics, the percent never lower than before."""


@value_class
class Run:
    id: str
    """`jb_` and digits and letters that sort by time; the same in Redis, in scripts and in the API."""
    kind: RunKind
    status: RunStatus
    domain: str = ""
    source: str = ""
    mode: str = ""
    parent: str = ""
    """The run of the domain that this crawl of a source is a part of."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    started_by: str = ""
    """`timer`, `script`, `api`, or who else asked for it."""
    phase: RunPhase = RunPhase.CRAWLING
    progress: int = 0
    """Percent."""
    message: str = ""
    error: str = ""
    problem: str = ""
    """Why it is only partial: `held` by the loss guard, `incomplete` listing, `unpublished` because its vector store
    could not be brought up to date; empty if only items failed."""
    created_ts: float = 0.0
    started_ts: float = 0.0
    ended_ts: float = 0.0
    heartbeat_ts: float = 0.0
    in_flight: int = 0
    """Items that workers have leased at the moment; of a domain, those of its parts."""
    parts: int = 0
    """How many sources the run of a domain crawls."""
    left: int = 0
    """Items that were still due at its end."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """By name, for a crawl: discovered, visited = changed + unchanged + gone + failed + excluded."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """What its workers measured, by name."""
    statistics: Mapping[str, Any] = field(default_factory=dict)
    """What its steps did to a SharePoint source, as its report has it (`SourceStatistics`)."""
    receipt: str = ""
    """`<items>:<digest>` over item ids and content hashes at its end; equal results have equal receipts."""

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.status not in ENDED

    @property
    def scope(self) -> str:
        """What it works on."""
        return scope_of(self.kind, self.source, self.domain, self.mode)


@value_class
class FailedItem:
    """An item that failed in a run."""

    item_id: str
    url: str
    code: str
    """`FAIL_TIMEOUT` and the like."""
    text: str
    failed_ts: float


def source_scope(sid: str) -> str:
    return f"source:{sid}"


def domain_scope(domain_id: str) -> str:
    return f"domain:{domain_id}"


def scope_of(kind: RunKind, source: str = "", domain: str = "", mode: str = "") -> str:
    """Return what a run works on: a source, a domain, or all that its kind is about. One run at a time has it."""
    if kind in (RunKind.CRAWL, RunKind.REFRESH):
        return source_scope(source)
    if kind in (RunKind.REINDEX, RunKind.EMBED):
        return f"{kind}:{domain or '*'}"
    if kind is RunKind.DOCTOR and mode == CHECK:
        return f"{kind}:{mode}"
    return domain_scope(domain) if kind is RunKind.DOMAIN else str(kind)


def resume_command(scope: str) -> str:
    """Return the command that ends the pause of a scope, as far as its name tells: of a domain, or of a whole kind."""
    kind, _, name = scope.partition(":")
    if kind == RunKind.DOMAIN and name:
        return f"python -m scripts.domain resume {name}"
    return f"python -m scripts.runs resume {scope}" if scope in set(RunKind) else ""


_SEPARATE = {"id", "kind", "status", "phase", "progress", "counts"}
_PLAIN = {one.name: str(one.type) for one in dataclass_fields(Run) if one.name not in _SEPARATE}
_READERS: Mapping[str, Callable[[str | None], Any]] = {
    "str": lambda text: text or "",
    "int": field_parsing.integer,
    "float": field_parsing.timestamp,
    "Mapping[str, str]": field_parsing.mapping,
    "Mapping[str, float]": field_parsing.mapping,
    "Mapping[str, Any]": field_parsing.mapping,
}


def parse_run(run_id: str, fields: Mapping[str, str], now: float) -> Run:
    """Return a stored run as it is at this time: without a heartbeat it is interrupted. Damaged fields are defaults."""
    status = _word(RunStatus, fields.get("status"), RunStatus.INTERRUPTED)
    values: dict[str, Any] = {name: _READERS[kind](fields.get(name)) for name, kind in _PLAIN.items()}
    return Run(
        id=run_id,
        kind=_word(RunKind, fields.get("kind"), RunKind.CRAWL),
        status=status_at(status, values["heartbeat_ts"], now),
        phase=_word(RunPhase, fields.get("phase"), RunPhase.CRAWLING),
        progress=min(max(field_parsing.integer(fields.get("progress")), 0), 100),
        counts={name: field_parsing.integer(fields.get(name)) for name in _counter_names(fields)},
        **values,
    )


def _counter_names(fields: Mapping[str, str]) -> list[str]:
    """Return which fields are counters, in an order that does not change: Redis keeps none for a large hash."""
    names = {name for name in fields if name not in NO_COUNTERS and fields[name].isdigit()}
    return [name for name in COUNTERS if name in names] + sorted(names.difference(COUNTERS))


def with_parts(run: Run, parts: Sequence[Run]) -> Run:
    """Return the run of a domain with what its parts do now; it has written down itself what they did a while ago."""
    if not parts or not run.is_open:
        return run
    at_work = [part for part in parts if part.status in AT_WORK]
    done = sum(100 if part.status in ENDED - {RunStatus.CANCELLED} else part.progress for part in parts)
    progress = min(done // run.parts, 99) if run.parts else 0
    in_flight = sum(part.in_flight for part in at_work)
    return replace(run, in_flight=in_flight, progress=max(run.progress, progress))


def parse_failed_item(item_id: str, fields: Mapping[str, str]) -> FailedItem:
    """Return a stored failure of a run."""
    url, code, text = (str(fields.get(name, "")) for name in ("url", "code", "text"))
    return FailedItem(item_id, url, code, text, field_parsing.timestamp(fields.get("ts")))


def status_at(status: RunStatus, heartbeat_ts: float, now: float) -> RunStatus:
    """Return what a stored status means at this time: without a heartbeat no worker has the run."""
    if now - heartbeat_ts <= SILENT_SECONDS:
        return status
    silent = {RunStatus.RUNNING: RunStatus.INTERRUPTED, RunStatus.PAUSING: RunStatus.PAUSED}
    return silent.get(status, status)


_SHOWN = {one.name: re.sub("_ts$", "_at", one.name) for one in dataclass_fields(Run) if one.name != "parts"}
"""The names of fields in JSON, where times are ISO 8601: `ended_ts` → `ended_at`."""


def run_json(run: Run) -> dict[str, Any]:
    """Return a run as scripts print it and the API sends it; a time is null where there is none."""
    told = {name: getattr(run, name) for name in _SHOWN}
    return {_SHOWN[name]: _time(value) if name.endswith("_ts") else value for name, value in told.items()}


NO_COUNTERS = frozenset({one.name for one in dataclass_fields(Run)}) | {
    *("scope", "control", "started", "ended", "begun", "made_due", "untouched", "unlisted", "jobs_sent", "jobs_done"),
    *("takes_until_ts", "prepared"),
}
"""Every other field of a stored run that holds a number is a counter."""


def _word(kind: type[Word], value: str | None, default: Word) -> Word:
    return kind(value) if value in set(kind) else default


def _time(stamp: float) -> str | None:
    return iso(stamp) if stamp else None
