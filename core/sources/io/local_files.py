"""Read files below a root as HTTP answers: 200 with a body and validators, 304, 404, 403, or a failure.

Never leaves its root, follows no symlink, opens regular files only. Synchronous, to be run in a thread.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import mimetypes
import os
import stat
import time
from collections.abc import Callable, Mapping
from email.utils import formatdate
from pathlib import Path

from core.errors import FailCode, FailDetail
from core.models import Failed, Fetched
from core.pages.documents.file_type import MEDIA_TYPES
from core.sources.io.folder_walk import is_young, printable_path, version

READS = 3
HASH_MOST_BYTES = 1_000_000_000
HASH_SECONDS = 20.0
"""A file that is too large to be read is hashed, unless it is larger than this or takes longer: others wait for it."""
_HASH_BYTES = 1024 * 1024
_FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a FIFO without a writer would otherwise wait for ever.
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM})
_NO_FILE = frozenset({errno.ELOOP, errno.ENXIO, errno.ENODEV, errno.EISDIR})
_TYPES = {**MEDIA_TYPES, "rst": "text/plain", "adoc": "text/plain"}
_BUILT_IN_TYPES = mimetypes.MimeTypes(filenames=())  # what this machine has in /etc must not change a document


class _NotAllowed(Exception):
    """A path that is not ours to open; the text says why."""


def content_type(path: str) -> str:
    known = _TYPES.get(Path(path).suffix.lower().removeprefix("."))
    if known:
        return known
    guessed, packed = _BUILT_IN_TYPES.guess_type(Path(path).name)
    return guessed if guessed and not packed else "application/octet-stream"


class LocalFiles:
    def __init__(
        self,
        root: Path,
        max_bytes: int,
        clock: Callable[[], float] = time.time,
        type_of: Callable[[str], str] = content_type,
    ) -> None:
        """`type_of` gives the media type of a path."""
        self._root = root
        self._max_bytes = max_bytes
        self._clock = clock
        self._type_of = type_of

    def fetch(self, path: str, known: str) -> Fetched | Failed:
        """Return the file as an HTTP answer; its ETag is mtime and size, with a hash while it is young.

        `known` is the ETag of what the caller has.
        """
        try:
            for _ in range(READS):
                if answer := self._read(path, known):
                    return answer
        except _NotAllowed as refusal:
            return Failed(FailCode.HTTP, FailDetail.BLOCKED, str(refusal))
        except OSError as error:
            return self._failure(path, error)
        return Failed(FailCode.HTTP, FailDetail.RESET, f"{path} changed while it was read, {READS} times")

    def hash_of(self, path: str, is_stopped: Callable[[], bool]) -> str | None:
        """Return None for what cannot be read, and for what would hold up others: too large, or on too slow a disk."""
        digest, ends_at = hashlib.sha256(), time.monotonic() + HASH_SECONDS
        try:
            with open(_open_inside(self._root, path), "rb", buffering=0) as file:
                if os.fstat(file.fileno()).st_size > HASH_MOST_BYTES:
                    return None
                while not is_stopped() and (piece := file.read(_HASH_BYTES)):
                    digest.update(piece)
                    if time.monotonic() > ends_at:
                        return None
        except (OSError, _NotAllowed):
            return None
        return digest.hexdigest()

    def _read(self, path: str, known: str) -> Fetched | Failed | None:
        """Return the answer, or None if the file changed while it was read."""
        with open(_open_inside(self._root, path), "rb") as file:
            before = os.fstat(file.fileno())
            is_racy = is_young(before, self._clock())
            if known == _etag(before) and not is_racy:
                return _answer(path, 304, {"etag": known})
            if before.st_size > self._max_bytes:
                text = f"{path} has {before.st_size:,} bytes; at most {self._max_bytes:,} are read"
                return Failed(FailCode.HTTP, FailDetail.TOO_LARGE, text)
            body = file.read(before.st_size + 1)
            after = os.fstat(file.fileno())
        if version(before) != version(after) or len(body) != before.st_size:
            return None
        hashed = _etag(after, hashlib.sha256(body).hexdigest()[:16])
        tag = hashed if is_racy else _etag(after)
        if known == hashed:
            return _answer(path, 304, {"etag": tag})
        return _answer(path, 200, _headers(self._type_of(path), tag, after), body)

    def _failure(self, path: str, error: OSError) -> Fetched | Failed:
        """Return what an error of the system means, as an HTTP status or a failure."""
        if error.errno in _FORBIDDEN:
            return _answer(path, 403)
        if error.errno in _NO_FILE:
            return Failed(FailCode.HTTP, FailDetail.BLOCKED, f"{path} is not a regular file")
        if error.errno not in _NOT_THERE:
            return Failed(FailCode.HTTP, FailDetail.RESET, f"{path} cannot be read: {error.strerror}")
        with contextlib.suppress(OSError), os.scandir(self._root) as entries:
            if next(entries, None) is not None:
                return _answer(path, 404)
        return Failed(FailCode.HTTP, FailDetail.REFUSED, f"the folder {self._root} is missing or empty; is it mounted?")


def _open_inside(root: Path, path: str) -> int:
    """Open a regular file below the root; return its descriptor. Raises `_NotAllowed` or OSError.

    Opened name by name from the root, none of them a symlink, so that no folder can be exchanged after it was checked.
    """
    name = Path(path).name
    if "\0" in path or not Path(path).is_absolute() or name in ("", ".."):
        raise _NotAllowed(f"{printable_path(path)!r} names no file")
    try:
        inside = root.resolve(strict=True)
        folder = Path(path).parent.resolve(strict=True)
    except RuntimeError:
        raise _NotAllowed(f"{printable_path(path)} lies behind a symlink loop") from None
    if not folder.is_relative_to(inside):
        raise _NotAllowed(f"{printable_path(path)} lies outside {root}")
    at = os.open(inside, _FOLDER_FLAGS)
    for step in folder.relative_to(inside).parts:
        at = _step(at, step, _FOLDER_FLAGS)
    at = _step(at, name, _FILE_FLAGS)
    if not stat.S_ISREG(os.fstat(at).st_mode):
        os.close(at)
        raise _NotAllowed(f"{printable_path(path)} is not a regular file")
    return at


def _step(folder: int, name: str, flags: int) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    finally:
        os.close(folder)


def _etag(status: os.stat_result, fingerprint: str = "") -> str:
    return f'"{version(status)}:{fingerprint}"' if fingerprint else f'"{version(status)}"'


def _headers(media_type: str, tag: str, status: os.stat_result) -> dict[str, str]:
    headers = {"etag": tag, "content-type": media_type, "content-length": str(status.st_size)}
    try:
        return headers | {"last-modified": formatdate(status.st_mtime, usegmt=True)}
    except (ValueError, OverflowError):  # a year that no calendar has
        return headers


def _answer(path: str, status: int, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Fetched:
    return Fetched(path, path, status, headers or {}, body)
