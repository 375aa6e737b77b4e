"""Folders and files that only their owner may read: the store's data, its password, its address."""

from __future__ import annotations

import contextlib
import glob
import os
import stat
from collections.abc import Iterable
from pathlib import Path

FOLDER_MODE = 0o700
FILE_MODE = 0o600


def make_folder(path: Path) -> bool:
    """Make a folder that only we can enter, or tighten one that is there; False if it is not ours to tighten."""
    path.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
    status = path.stat()
    if stat.S_IMODE(status.st_mode) & 0o077 == 0:
        return True
    # A folder with a sticky bit is shared on purpose, as /tmp is.
    if status.st_uid != os.geteuid() or status.st_mode & stat.S_ISVTX:
        return False
    path.chmod(FOLDER_MODE)
    return True


def tighten(path: Path) -> None:
    """Take every right of others from a folder and all that is in it; an earlier version left it readable."""
    if not path.is_dir():
        return
    for place in (path, *path.rglob("*")):
        mode = stat.S_IMODE(place.lstat().st_mode)
        if mode & 0o077 and not place.is_symlink():
            place.chmod(mode & 0o700)


def write(path: Path, text: str, *, is_durable: bool = False) -> None:
    """Write a text file that only we can read, whole or not at all; a durable one survives a power cut as well."""
    write_bytes(path, text.encode(), is_durable=is_durable)


def write_bytes(path: Path, data: bytes, *, is_durable: bool = False) -> None:
    """Write a file that only we can read, whole or not at all; a durable one survives a power cut as well."""
    write_pieces(path, (data,), is_durable=is_durable)


def write_pieces(path: Path, pieces: Iterable[bytes], *, is_durable: bool = False) -> None:
    """Write a file as `write_bytes` does, piece by piece; if making a piece fails, the file stays as it was."""
    whole = path.with_name(f"{path.name}.{os.getpid()}.new")
    whole.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb") as file:
            file.writelines(pieces)
            if is_durable:
                file.flush()
                os.fsync(file.fileno())
        whole.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            whole.unlink(missing_ok=True)
        raise
    if is_durable:
        sync_folder(path.parent)


def remove_left(path: Path) -> None:
    """Remove what killed processes left half written of a file; the caller keeps others from writing it meanwhile."""
    for left in path.parent.glob(f"{glob.escape(path.name)}.*.new"):
        left.unlink(missing_ok=True)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
