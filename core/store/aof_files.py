"""The files of the embedded server's append-only log: are they all there before a start?

Without its manifest the server takes the folder for a new one and overwrites what is in it.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from core.errors import StoreUnreachable

FOLDER = "appendonlydir"
NAME = "appendonly.aof"
_PART = re.compile(re.escape(NAME) + r"\.(?P<number>\d+)\.(?P<kind>base|incr)\.(?:rdb|aof)")


def check(server_folder: Path) -> None:
    """Raise `StoreUnreachable` with a way out if a start would lose data."""
    folder = server_folder / FOLDER
    manifest = folder / f"{NAME}.manifest"
    if manifest.is_file() and manifest.stat().st_size:
        return  # the server itself refuses to start if a file that it names is missing
    parts = sorted(path.name for path in folder.glob(f"{NAME}.*")) if folder.is_dir() else []
    if parts and parts != [manifest.name]:
        raise StoreUnreachable(
            f"Cannot start. {manifest} is missing or empty, and without it the server would begin with an empty store "
            f"and overwrite the data beside it. Put it back from a backup{_command(manifest, parts)}, "
            f"or move {server_folder} away to begin with an empty store."
        )


def check_still_there(server_folder: Path) -> None:
    """Raise `StoreUnreachable` if a store that was in use has no data files any more, while its folder is there."""
    if server_folder.is_dir() and not any((server_folder / FOLDER).glob(f"{NAME}.*")):
        raise StoreUnreachable(
            f"Cannot start. The store's data, {server_folder / FOLDER}, is gone. Put it back, "
            f"or move {server_folder} away to begin with an empty store."
        )


def _command(manifest: Path, parts: list[str]) -> str:
    """Return how to write the manifest anew, if the files leave no doubt."""
    matches = [match for match in map(_PART.fullmatch, parts) if match]
    bases = [match for match in matches if match["kind"] == "base"]
    rest = sorted((match for match in matches if match["kind"] == "incr"), key=lambda match: int(match["number"]))
    if len(bases) != 1 or not rest:
        return ""
    lines = "".join(f"file {match[0]} seq {match['number']} type {match['kind'][0]}\\n" for match in (*bases, *rest))
    return f" (or write it anew: printf {shlex.quote(lines)} > {shlex.quote(str(manifest))})"
