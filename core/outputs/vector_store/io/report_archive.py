"""The reports of crawls below `reports/crawls`: one zip each, with report.json and the map files as they were then.

An archive appears whole or not at all, never in the place of another, and only its owner may read it. Blocks; call it
in a thread.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from core.errors import NotFound
from core.outputs.vector_store.crawl_report import ReportName
from core.registry.record import iso
from core.settings import Settings
from core.sources.sharepoint.crawler_config import CRAWLER_HARDCODED_CONFIG as CFG
from core.sources.sharepoint.io.storage_paths import CrawlerStorage
from core.store import private_files
from core.value_class import value_class

MAP_FILES = (CFG.SHAREPOINT_MAP_CSV, CFG.FILE_MAP_CSV, CFG.VECTOR_STORE_MAP_CSV)
MOST_REPORT_BYTES = 50_000_000
"""Limit for a report.json; a larger one was not written by us."""
MOST_SECONDS_AHEAD = 3_600
"""A name is taken when crawls end in the same second; then the report has one of the next."""
LEFT_SECONDS = 3_600.0
"""No archive takes longer to write."""
_LEFT = ".new"


@value_class
class StoredReport:
    name: ReportName
    bytes: int

    @property
    def id(self) -> str:
        return self.name.id


def entry_json(report: StoredReport) -> dict[str, object]:
    """Return a report as scripts print it in a list and the API sends it."""
    name = report.name
    return {
        "id": report.id,
        "domain_id": name.domain_id,
        "scope": name.scope,
        "mode": name.mode,
        "created_at": iso(name.created_ts),
        "bytes": report.bytes,
    }


class ReportArchive:
    def __init__(self, settings: Settings) -> None:
        self._storage = CrawlerStorage.of(settings)
        self._folder = self._storage.crawl_reports
        self._kept = settings.crawl_reports_kept

    # ── read ──

    def list(self, domain_id: str | None = None) -> Sequence[StoredReport]:
        """Return the reports of all domains, or of one, newest first."""
        found = []
        with contextlib.suppress(FileNotFoundError):
            for entry in os.scandir(self._folder):
                name = ReportName.parse(entry.name) if entry.name.endswith(".zip") else None
                if name and domain_id in (None, name.domain_id):
                    found.append(StoredReport(name, entry.stat(follow_symlinks=False).st_size))
        return sorted(found, key=lambda one: (one.name.created_ts, one.id), reverse=True)

    def path(self, report_id: str) -> Path:
        """Return the file of a report; raise NotFound if there is none, whatever the id says."""
        name = ReportName.parse(report_id)
        path = self._folder / f"{name.name}.zip" if name else None
        if path is None or path.is_symlink() or not path.is_file():
            raise NotFound(f"There is no report {report_id[:200]}. `python -m scripts.domain reports ID` lists them.")
        return path

    def read(self, report_id: str) -> dict[str, Any]:
        """Return report.json of a report; raise NotFound if there is none that can be read."""
        with self.open_file(report_id, CFG.REPORT_JSON) as file:
            try:
                read = json.loads(file.read(MOST_REPORT_BYTES))
            except (ValueError, zipfile.BadZipFile, EOFError):
                raise self._damaged(report_id) from None
        if not isinstance(read, dict):
            raise self._damaged(report_id)
        return read

    @contextlib.contextmanager
    def open_file(self, report_id: str, name: str) -> Iterator[IO[bytes]]:
        """Open a file of a report; raise NotFound if the report or the file is not there."""
        path = self.path(report_id)
        try:
            archive = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, OSError):
            raise self._damaged(report_id) from None
        with archive:
            try:
                file = archive.open(name)
            except KeyError:
                names = ", ".join(archive.namelist()[:20])
                raise NotFound(f"The report has no file {name[:200]}; it has {names}.") from None
            with file:
                yield file

    def _damaged(self, report_id: str) -> NotFound:
        return NotFound(f"The report {report_id} is damaged; remove {self.path(report_id)}.")

    # ── write ──

    def maps_of(self, domain_id: str) -> Mapping[str, Path]:
        """Return the map files of a domain by their paths below its folder."""
        folder = self._storage.crawler / domain_id
        found = sorted(path for name in MAP_FILES for path in folder.glob(f"*/*/{name}"))
        return {str(path.relative_to(folder)): path for path in found if path.is_file() and not path.is_symlink()}

    def write(
        self, name: ReportName, run_id: str, maps: Mapping[str, Path], report: Callable[[ReportName], Mapping[str, Any]]
    ) -> str:
        """Keep a report with these map files under a name that is free, and drop the oldest; return its id.

        The report of a run that was interrupted while it wrote it is not written twice. Raises OSError.
        """
        if known := self._report_of(name.domain_id, run_id):
            return known.id
        private_files.make_folder(self._folder.parent)
        private_files.make_folder(self._folder)
        made = self._folder / f".{secrets.token_hex(8)}{_LEFT}"
        try:
            for _ in range(MOST_SECONDS_AHEAD):
                path = self._folder / f"{name.name}.zip"
                if not path.exists():
                    _write_zip(made, json.dumps(report(name), indent=2, ensure_ascii=False), maps)
                    with contextlib.suppress(FileExistsError):
                        os.link(made, path)
                        break
                name = replace(name, created_ts=name.created_ts + 1)
        finally:
            made.unlink(missing_ok=True)
        self.prune(name.domain_id)
        return name.id

    def prune(self, domain_id: str) -> None:
        """Drop the oldest reports of a domain, and what a killed process left half written."""
        for old in self.list(domain_id)[self._kept :]:
            (self._folder / f"{old.name.name}.zip").unlink(missing_ok=True)
        for left in self._folder.glob(f".*{_LEFT}"):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - left.stat().st_mtime > LEFT_SECONDS:
                    left.unlink()

    def _report_of(self, domain_id: str, run_id: str) -> StoredReport | None:
        """Return the newest report of the domain, if it is of this run."""
        newest = next(iter(self.list(domain_id)), None)
        if newest is None:
            return None
        with contextlib.suppress(NotFound):
            return newest if self.read(newest.id).get("run_id") == run_id else None
        return None


def _write_zip(path: Path, report: str, maps: Mapping[str, Path]) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, private_files.FILE_MODE)
    with os.fdopen(descriptor, "w+b") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(CFG.REPORT_JSON, report)
            for name, source in maps.items():
                archive.write(source, name)
        file.flush()
        os.fsync(file.fileno())
