"""The folder source: documents on a disk or a mounted share.

Lists by mtime and size; where a file is so young that both may hide an edit, its content's hash decides (git calls such
files racy). Never leaves its root, follows no symlink, opens regular files only. A root that is not there,
or that answers like a share that is not mounted, is trouble and never a loss. All disk work is done in threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import mimetypes
import os
import re
import stat
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from email.utils import formatdate
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import AfterValidator, Field, ValidationInfo

from core.errors import FailCode, FailDetail
from core.models import Failed, Fetched, FetchResult, ListingBatch, ListingEnd, Ref, RejectedUrl
from core.registry.record import Item
from core.settings import Settings
from core.sources.domain_schema import Globs, SourceConfig, slug
from core.sources.io import read_permission
from core.sources.io.folder_walk import FolderWalk, is_utf8, is_young, printable_path, version
from core.sources.io.source import Source
from core.sources.source_state import SourceState
from core.urls.file_paths import file_identity
from core.urls.patterns import DOCUMENTS, PathPatterns
from core.urls.scope import EXCLUDED, NOT_INCLUDED, Judgement

if TYPE_CHECKING:
    from core.net.fetcher import BodySlot
    from core.runtime.context import Context

BATCH_ITEMS = 500
READS = 3
HASH_MOST_BYTES = 1_000_000_000
HASH_SECONDS = 20.0
"""A file that is too large to be read is hashed, unless it is larger than this or takes longer: others wait for it."""
_HASH_BYTES = 1024 * 1024
_FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a FIFO that nobody writes to would otherwise wait for ever.
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM})
_NO_FILE = frozenset({errno.ELOOP, errno.ENXIO, errno.ENODEV, errno.EISDIR})
_TYPES = {
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".rst": "text/plain",
    ".adoc": "text/plain",
    ".txt": "text/plain",
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
}
_BUILT_IN_TYPES = mimetypes.MimeTypes(filenames=())  # what this machine has in /etc must not change a document


class _NotAllowed(Exception):
    """A path that is not ours to open; the text says why."""


def _absolute_path(path: str, info: ValidationInfo) -> str:
    """Return the absolute path, seen from the folder of domain.json; `~` is the home of whoever runs us."""
    context = info.context or {}
    if path == "~" or path.startswith("~/"):
        path = f"{context.get('home') or Path.home()}{path[1:]}"
    elif path.startswith("~"):
        raise ValueError("may begin with ~/ but not with another user's home")
    if re.match(r"(?!file:)[a-z]+://", path, re.IGNORECASE):
        raise ValueError("is an address, not a folder")
    if not re.match(r"[/\\]|[A-Za-z]:[/\\]|file:", path):
        path = f"{context.get('folder', '')}/{path}"
    return file_identity(path).address


class FolderConfig(SourceConfig):
    """A folder on a disk or a mounted share."""

    location_field = "path"

    path: Annotated[str, Field(min_length=1), AfterValidator(_absolute_path)]
    include: Globs = DOCUMENTS
    exclude: Globs = ()

    @classmethod
    def recognise(cls, word: str, web_url: str) -> dict[str, Any] | None:
        return None if re.match(r"https?:", word, re.IGNORECASE) else {"path": word}

    def derived_id(self) -> str:
        return slug(self.path.rpartition("/")[2])

    def problem(self) -> str:
        is_there = Path(self.path).is_dir()
        return "" if is_there else f"There is no file or folder {self.path}. A site begins with https://."


class FolderSource(Source):
    """The files below a folder. `include` and `exclude` are patterns; without an include every file is taken."""

    config_model = FolderConfig
    is_listing_evidence = True
    interval_setting = "folder_list_seconds"
    needs_no_requests = True
    needs_signature = True

    def __init__(
        self,
        root: Path,
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
        *,
        max_bytes: int,
        refusal: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Raises ValueError, a sentence, for a pattern or a root that cannot be used.

        `refusal`: why nothing below the root may be read; then nothing is, and nothing counts as gone.
        """
        if not is_utf8(str(root)):
            raise ValueError(f"the folder {printable_path(str(root))} has a name that is no UTF-8")
        # As it was named, not resolved: a root that is a symlink keeps its items when it is turned to another folder.
        self._root = Path(file_identity(str(root.absolute())).address)
        self._patterns = PathPatterns(include, exclude)
        self._max_bytes = max_bytes
        self._refusal = refusal
        self._clock = clock

    @classmethod
    def open(cls, state: SourceState, context: Context, now: float) -> Self:
        config = state.record.config
        include, exclude = config.get("include", ()), config.get("exclude", ())
        refusal = read_permission.folder_refusal(context.settings, state.record, config["path"])
        return cls(Path(config["path"]), include, exclude, max_bytes=context.settings.fetch_max_bytes, refusal=refusal)

    @classmethod
    def judge(cls, state: SourceState, settings: Settings, address: str, depth: int, now: float) -> Judgement | None:
        config = state.record.config
        root = f"{config['path'].rstrip('/')}/"
        if not address.startswith(root):
            return None
        patterns = PathPatterns(config.get("include", ()), config.get("exclude", ()))
        refusal = read_permission.folder_refusal(settings, state.record, config["path"])
        return Judgement("not allowed", refusal) if refusal else judge_path(patterns, address.removeprefix(root))

    def exclusion_reason(self, address: str) -> str:
        inside = address.removeprefix(f"{str(self._root).rstrip('/')}/")
        return "" if self._patterns.matches(inside) else EXCLUDED

    async def list(self, memory: Mapping[str, str]) -> AsyncIterator[ListingBatch | ListingEnd]:
        """List every file that is taken, folder by folder in order of names; memory is not needed."""
        if self._refusal:
            yield ListingEnd(is_complete=False, reason=self._refusal)
            return
        walk = FolderWalk(self._root, self._patterns, self._clock)
        entries = iter(walk)
        while batch := await asyncio.to_thread(lambda: tuple(islice(entries, BATCH_ITEMS))):
            refs = tuple(one for one in batch if isinstance(one, Ref))
            refused = tuple(one for one in batch if isinstance(one, RejectedUrl))
            if refs or refused:
                yield ListingBatch(refs, refused)
        more = f" (and {walk.problem_count - 1} more)" if walk.problem_count > 1 else ""
        yield ListingEnd(is_complete=not walk.problem, reason=walk.problem + more)

    async def fetch(self, item: Item, conditional: Mapping[str, str], slot: BodySlot | None = None) -> FetchResult:
        """Return the file as an HTTP answer; its ETag is mtime and size, with a hash while it is young."""
        if self._refusal:
            return Failed(FailCode.HTTP, FailDetail.REFUSED, self._refusal)
        if slot is not None:
            await slot.take()
        known = {name.lower(): value for name, value in conditional.items()}.get("if-none-match", "")
        return await asyncio.to_thread(self._fetch, item.fetch_url, known)

    async def hash_of(self, item: Item) -> str | None:
        """Hash a file that is too large to be read at once; return None if that takes too long."""
        if self._refusal:
            return None
        stop = threading.Event()
        try:
            return await asyncio.to_thread(_hash_inside, self._root, item.fetch_url, stop.is_set)
        finally:
            stop.set()  # we may have been cancelled; the thread would read on

    # ── one file ────────────────────────────────────────────────────────────────────────────────

    def _fetch(self, path: str, known: str) -> FetchResult:
        try:
            for _ in range(READS):
                if answer := self._read(path, known):
                    return answer
        except _NotAllowed as refusal:
            return Failed(FailCode.HTTP, FailDetail.BLOCKED, str(refusal))
        except OSError as error:
            return self._failure(path, error)
        return Failed(FailCode.HTTP, FailDetail.RESET, f"{path} changed while it was read, {READS} times")

    def _read(self, path: str, known: str) -> FetchResult | None:
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
        return _answer(path, 200, _headers(path, tag, after), body)

    def _failure(self, path: str, error: OSError) -> FetchResult:
        """Return what an error of the system means, as an HTTP status or a failure."""
        if error.errno in _FORBIDDEN:
            return _answer(path, 403)
        if error.errno in _NO_FILE:
            return Failed(FailCode.HTTP, FailDetail.BLOCKED, f"{path} is no regular file")
        if error.errno not in _NOT_THERE:
            return Failed(FailCode.HTTP, FailDetail.RESET, f"{path} cannot be read: {error.strerror}")
        with contextlib.suppress(OSError), os.scandir(self._root) as entries:
            if next(entries, None) is not None:
                return _answer(path, 404)
        return Failed(FailCode.HTTP, FailDetail.REFUSED, f"the folder {self._root} is missing or empty; is it mounted?")


def judge_path(patterns: PathPatterns, path: str) -> Judgement:
    """Say whether patterns take a path, and which one does not."""
    if patterns.matches(path):
        return Judgement()
    pattern = patterns.excluded_by(path)
    if pattern:
        return Judgement(EXCLUDED, f"exclude {pattern}")
    return Judgement(NOT_INCLUDED, f"include {', '.join(patterns.include)}")


# ── files ───────────────────────────────────────────────────────────────────────────────────────


def _open_inside(root: Path, path: str) -> int:
    """Open a regular file below the root; return its descriptor. Raises `_NotAllowed` or OSError.

    Opened name by name from the root, none of them a symlink: nobody can exchange a folder after it was checked.
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
        raise _NotAllowed(f"{printable_path(path)} is no regular file")
    return at


def _hash_inside(root: Path, path: str, is_stopped: Callable[[], bool]) -> str | None:
    """Return None for what cannot be read, and for what would hold up others: too large, or on too slow a disk."""
    digest, ends_at = hashlib.sha256(), time.monotonic() + HASH_SECONDS
    try:
        with open(_open_inside(root, path), "rb", buffering=0) as file:
            if os.fstat(file.fileno()).st_size > HASH_MOST_BYTES:
                return None
            while not is_stopped() and (piece := file.read(_HASH_BYTES)):
                digest.update(piece)
                if time.monotonic() > ends_at:
                    return None
    except (OSError, _NotAllowed):
        return None
    return digest.hexdigest()


def _step(folder: int, name: str, flags: int) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    finally:
        os.close(folder)


def _etag(status: os.stat_result, fingerprint: str = "") -> str:
    return f'"{version(status)}:{fingerprint}"' if fingerprint else f'"{version(status)}"'


def _headers(path: str, tag: str, status: os.stat_result) -> dict[str, str]:
    headers = {"etag": tag, "content-type": content_type(path), "content-length": str(status.st_size)}
    try:
        return headers | {"last-modified": formatdate(status.st_mtime, usegmt=True)}
    except (ValueError, OverflowError):  # a year that no calendar has
        return headers


def _answer(path: str, status: int, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Fetched:
    return Fetched(path, path, status, headers or {}, body)


def content_type(path: str) -> str:
    """Return the media type that the suffix of a name stands for."""
    known = _TYPES.get(Path(path).suffix.lower())
    if known:
        return known
    guessed, packed = _BUILT_IN_TYPES.guess_type(Path(path).name)
    return guessed if guessed and not packed else "application/octet-stream"
