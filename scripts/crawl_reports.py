"""The reports of a domain's crawls: list them, show one, take one out as a zip."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from core.errors import FreshetError, NotFound
from core.outputs.vector_store.io.report_archive import ReportArchive, StoredReport, entry_json
from core.runtime.terminal import echo
from core.settings import load
from scripts import command_line
from scripts.command_names import command
from scripts.tables import table

LAST = "last"
LIST_HEAD = ("REPORT", "SCOPE", "MODE", "BYTES")
SOURCE_HEAD = ("SOURCE", "TYPE", "STATUS", "SECONDS", "VISITED", "CHANGED", "GONE", "FAILED", "SKIPPED", "ERROR")
_SKIPPED = (("download", "skipped_types"), ("process", "skipped"), ("embed", "skipped"))


async def reports(domain_id: str, report: str | None = None, *, download: str | None = None, json: bool = False) -> int:
    """List the reports of a domain, show one, or write its zip to a file. Needs no store: they are on this disk."""
    archive = ReportArchive(load())
    found = archive.list(domain_id)
    if not found:
        start = command(f"domain crawl {domain_id}")
        raise NotFound(f"There is no report of {domain_id}. Each crawl to the end writes one: {start}")
    if report is None and download is None:
        rows = [(one.id, one.name.scope, one.name.mode, f"{one.bytes:,}") for one in found]
        return command_line.answer([entry_json(one) for one in found], table(LIST_HEAD, rows), as_json=json)
    chosen = _chosen(found, report or LAST)
    if download is not None:
        return _download(archive.path(chosen.id), download)
    told = archive.read(chosen.id)
    return command_line.answer(told, "\n".join(_page(told)), as_json=json)


def _chosen(found: Sequence[StoredReport], word: str) -> StoredReport:
    """Return the report that a word names: its id, its name, the beginning of that, or `last`."""
    if word == LAST:
        return found[0]
    meant = [one for one in found if word in (one.id, one.name.name)]
    meant = meant or [one for one in found if one.name.name.startswith(word) or one.id.startswith(word)]
    if len(meant) != 1:
        how = "Several reports begin" if meant else "No report of this domain begins"
        raise NotFound(f"{how} with {word[:200]}.")
    return meant[0]


def _download(path: Path, where: str) -> int:
    target = Path(where) if where else Path(path.name)
    target = target / path.name if target.is_dir() else target
    if target.exists():
        raise FreshetError(f"{target} is there already; name another file.")
    try:
        shutil.copyfile(path, target)
    except OSError as error:
        raise FreshetError(f"{target} cannot be written ({error.strerror}).") from None
    echo(str(target))
    return 0


def _page(told: Mapping[str, Any]) -> Iterator[str]:
    timing = told["timing"]
    parameters = ", ".join(f"{name} {value}" for name, value in told["parameters"].items() if value not in ("", False))
    yield f"{told['report_id']}: {told['status']}, {timing['seconds']:g} s until {timing['ended_utc']}"
    yield f"Run {told['run_id']}, started by {told['started_by']}; {parameters}"
    yield table(SOURCE_HEAD, [_source_row(one) for one in told["sources"]])
    for one in told["sources"]:
        for what, counts in one.get("coverage", {}).items():
            if counts:
                names = ", ".join(f"{name} {count}" for name, count in counts.items())
                yield f"{one['source_id']}: not indexed, {what.replace('_', ' ')}: {names}"
    yield f"Files: {', '.join(told['files']) or 'none'}"


def _source_row(one: Mapping[str, Any]) -> tuple[object, ...]:
    counts = [one["counts"].get(name, 0) for name in ("visited", "changed", "gone", "failed")]
    skipped = sum(one.get(step, {}).get(name, 0) for step, name in _SKIPPED)
    return (one["source_id"], one["source_type"], one["status"], f"{one['seconds']:g}", *counts, skipped, one["error"])
