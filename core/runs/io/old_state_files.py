"""Read and write the three old files of a knowledge base below PERSISTENT_STORAGE_PATH.

They are never removed. One that is damaged is copied aside before anything else is written.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.runs.io.state_file import FOLDER, is_file_name
from core.runs.old_state import OldFile
from core.store import private_files

JOBS = Path("ingestion") / "jobs"
ENDING = ".json"
ASIDE = ".corrupt"


@dataclass(slots=True)
class OldStateFiles:
    values: dict[OldFile, Mapping[str, Any]] = field(default_factory=dict)
    """The contents of the files that are there and not empty."""
    notes: list[str] = field(default_factory=list)
    """Sentences about those that are empty or damaged."""
    damaged: dict[Path, bytes] = field(default_factory=dict)
    total_bytes: int = 0
    load_seconds: float = 0.0
    newest_ts: float = 0.0
    digest: str = ""


def paths(storage: Path, kb_id: str) -> dict[OldFile, Path]:
    """Return where the files of a knowledge base are."""
    folder = storage / FOLDER / kb_id
    return {
        OldFile.JOB: storage / JOBS / f"{kb_id}{ENDING}",
        **{name: folder / f"{name}{ENDING}" for name in (OldFile.CRAWL, OldFile.INDEX)},
    }


def kb_ids(storage: Path) -> list[str]:
    jobs = {path.name.removesuffix(ENDING) for path in (storage / JOBS).glob(f"*{ENDING}")}
    checkpoints = [(storage / FOLDER).glob(f"*/{name}{ENDING}") for name in (OldFile.CRAWL, OldFile.INDEX)]
    folders = {path.parent.name for found in checkpoints for path in found}
    return sorted(filter(is_file_name, jobs | folders))


def read(storage: Path, kb_id: str) -> OldStateFiles:
    files, digest, began = OldStateFiles(), hashlib.sha256(), time.perf_counter()
    for name, path in paths(storage, kb_id).items():
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            files.notes.append(f"{path} cannot be read ({error.strerror}); its part is left out.")
            files.damaged[path] = b""
            continue
        files.total_bytes += len(data)
        files.newest_ts = max(files.newest_ts, path.stat().st_mtime)
        digest.update(f"{name} {len(data)} ".encode() + data)
        _parse(files, name, path, data)
    files.load_seconds, files.digest = time.perf_counter() - began, digest.hexdigest()[:16]
    return files


def _parse(files: OldStateFiles, name: OldFile, path: Path, data: bytes) -> None:
    if not data.strip():
        files.notes.append(f"{path} is empty; its part has defaults.")
        return
    try:
        value = json.loads(data)
        if not isinstance(value, dict):
            raise ValueError("it is not a JSON object")
    except (ValueError, RecursionError) as error:
        files.notes.append(
            f"{path} is damaged ({error}); its part is left out, and a migration keeps a copy beside it."
        )
        files.damaged[path] = data
        return
    files.values[name] = value


def keep_aside(path: Path, data: bytes) -> None:
    """Keep what a damaged file holds under another name, once."""
    number = 1
    while True:
        aside = path.with_name(f"{path.name}{ASIDE}{f'.{number}' if number > 1 else ''}")
        if not aside.exists():
            private_files.write_bytes(aside, data)
            return
        if aside.read_bytes() == data:
            return
        number += 1


def write(path: Path, value: Mapping[str, Any]) -> bool:
    """Write an old file; return False if it says that already. What it said before is kept as `.bak`."""
    text = json.dumps(dict(value), indent=2, ensure_ascii=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True, mode=private_files.FOLDER_MODE)
    if path.exists():
        before = path.read_bytes()
        try:
            if json.loads(before) == value:
                return False
        except (ValueError, RecursionError):
            pass
        private_files.write_bytes(path.with_name(f"{path.name}.bak"), before)
    private_files.write(path, text, is_durable=True)
    return True


def local_to_utc(at: datetime) -> datetime:
    """Return a time of this machine's clock in UTC: the old files have no zone."""
    return at.astimezone(UTC)
