"""Files that other processes use as well: opened if they are files, appended to whole, tried again after a while."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, TypeVar

from core.sources.sharepoint.map_csv import MapFileDamaged, RowEnds

TRIES = 7
FIRST_PAUSE_SECONDS = 0.05
_PASSING = frozenset(
    {errno.EAGAIN, errno.EBUSY, errno.ESTALE, errno.EACCES, errno.EPERM, errno.EINTR, errno.ENOLCK, errno.ETXTBSY}
)
"""What another process, a scanner or a network disk causes for a moment. PermissionError is EACCES or EPERM."""
T = TypeVar("T")


def patiently(action: Callable[[], T]) -> T:
    """Do something, again after a while if another process is in the way; the last error is raised."""
    for number in range(TRIES - 1):
        try:
            return action()
        except OSError as error:
            if error.errno not in _PASSING:
                raise
        time.sleep(FIRST_PAUSE_SECONDS * 2**number)
    return action()


def append_rows(path: Path, data: bytes, known_size: int) -> int:
    """Append to the file, all or nothing; return its size. The caller holds the lock."""
    with open_regular(path, os.O_RDWR) as file:
        descriptor = file.fileno()
        size = os.fstat(descriptor).st_size
        if size != known_size:
            size = whole_rows(file).length
            os.ftruncate(descriptor, size)
        try:
            _write(descriptor, data, size)
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, size)  # a part of a row, repeated with the next try, would damage the file
            raise
        return size + len(data)


def _write(descriptor: int, data: bytes, offset: int) -> None:
    rest = memoryview(data)
    while rest:
        count = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[count:], offset + count


def whole_rows(file: IO[bytes]) -> RowEnds:
    file.seek(0)
    ends = RowEnds()
    for line in file:
        ends.add(line)
    return ends


def open_regular(path: Path, flags: int) -> IO[bytes]:
    """Open a regular file: not a symlink, nor a pipe that never ends."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise MapFileDamaged(f"{path.name} is not a regular file") from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise MapFileDamaged(f"{path.name} is not a regular file")
    return os.fdopen(descriptor, "rb")
