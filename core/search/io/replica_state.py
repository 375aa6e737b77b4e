"""The state of a replica on disk (`state.json`, replaced as a whole), its locks and its errors.

`state.json` is the point of truth: whatever the other files hold beyond it was never committed.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from core.errors import FreshetError
from core.value_class import value_class

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
SCHEMA = 7
"""Of all files of a replica; a replica with another number is rebuilt."""


class ReplicaBroken(FreshetError):
    """The replica is damaged, or made by another version or for other vectors. Erase and rebuild it."""


class ReplicaUnusable(FreshetError):
    """The replica can be neither read nor written where it is."""


class ReplicaFull(ReplicaUnusable):
    """There is no room to write the replica; what was committed can still be read."""


class ReplicaBusy(FreshetError):
    """Another process writes this replica."""


class InvalidVector(FreshetError):
    """A vector does not fit the space of this replica."""


def unusable(folder: Path, error: OSError) -> ReplicaUnusable:
    """Return the exception for a disk that is full, read-only or not there."""
    is_full = error.errno in _FULL
    return (ReplicaFull if is_full else ReplicaUnusable)(
        f"The search replica in {folder} cannot be {'written' if is_full else 'used'}: {error.strerror or error}. "
        "Make room there, or set PERSISTENT_STORAGE_PATH to a folder that can be written."
    )


@value_class
class Checkpoint:
    """How far the replica follows Redis."""

    position: str = ""
    """In the event stream; empty: not all items have been read yet."""
    space: str = ""
    """Name of the space its vectors are in."""


class ReplicaState(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `state.json`."""

    schema: int
    born: str
    """Differs for each replica ever made in this folder."""
    dimension: int | None
    other_dimension: int | None = None
    """Of the vectors of other languages."""
    epoch: int = 0
    """Which log and vectors: raised by each compaction."""
    log_bytes: int = 0
    rows: int = 0
    other_rows: int = 0
    """How many chunks have a vector of other languages."""
    next_row: int = 0
    opstamp: int = 0
    """Of the commit of tantivy that belongs to it."""
    checkpoint: Checkpoint = Checkpoint()


Signature = tuple[int, int, int]


def signature(folder: Path) -> Signature | None:
    """Return what changes whenever the state does; None: there is no state."""
    try:
        stat = (folder / "state.json").stat()
    except FileNotFoundError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def read(folder: Path) -> ReplicaState | None:
    """Return the state; None: there is no replica yet. Raises ReplicaBroken."""
    try:
        raw = (folder / "state.json").read_bytes()
    except FileNotFoundError:
        return None
    try:
        schema = msgspec.json.decode(raw, type=dict[str, object]).get("schema")
        if schema != SCHEMA:
            raise ReplicaBroken(f"The search replica in {folder} has schema {schema}, this program reads {SCHEMA}.")
        return msgspec.json.decode(raw, type=ReplicaState)
    except msgspec.DecodeError as error:
        raise ReplicaBroken(f"The search replica in {folder} has a state that cannot be read: {error}.") from error


def write(folder: Path, state: ReplicaState) -> None:
    """Replace the state: after a crash it is the old one or the new one."""
    temporary = folder / "state.json.new"
    with temporary.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(state)))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(folder / "state.json")
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ── locks ──


def try_lock(path: Path) -> int | None:
    """Return the descriptor that holds this lock until it is closed; None: another process holds it."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except FileNotFoundError:
        raise _removed(path.parent) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Hold this lock; False: another process holds it."""
    lock = try_lock(path)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            os.close(lock)


def is_same_file(path: Path, descriptor: int) -> bool:
    """Return whether the file we locked still has this name: the folder may have been removed."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


@contextmanager
def commit_lock(folder: Path, *, shared: bool = False, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of a commit alone, or shared by readers, who then see files that fit together.

    False: another process holds it, and `wait` is not set.
    """
    try:
        file = (folder / "commit.lock").open("a")
    except FileNotFoundError:
        raise _removed(folder) from None
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    with file:
        try:
            fcntl.flock(file, kind if wait else kind | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _removed(folder: Path) -> ReplicaBroken:
    return ReplicaBroken(f"The search replica in {folder} was removed.")
