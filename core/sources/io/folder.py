"""The folder source: documents on a disk or a mounted share.

Lists by mtime and size; where a file is so young that both may hide an edit, its content's hash decides (git calls such
files racy). Never leaves its root, follows no symlink, opens regular files only. A root that is not there,
or that answers like a share that is not mounted, is trouble and never a loss. All disk work is done in threads.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import AfterValidator, Field, ValidationInfo

from core.errors import FailCode, FailDetail
from core.models import Failed, FetchResult, ListingBatch, ListingEnd, Ref, RejectedUrl
from core.registry.record import Item
from core.settings import Settings
from core.sources.domain_schema import Globs, SourceConfig, slug
from core.sources.io import read_permission
from core.sources.io.folder_walk import FolderWalk, is_utf8, printable_path
from core.sources.io.local_files import LocalFiles
from core.sources.io.source import Source
from core.sources.source_record import SourceState
from core.urls.file_paths import file_identity
from core.urls.path_patterns import DOCUMENTS, PathPatterns
from core.urls.scope import EXCLUDED, NOT_INCLUDED, Judgement

if TYPE_CHECKING:
    from core.net.fetcher import BodySlot
    from core.runtime.context import Context

BATCH_ITEMS = 500


def _absolute_path(path: str, info: ValidationInfo) -> str:
    """Return the absolute path, seen from the folder of domain.json; `~` is the home folder of this process's user."""
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
            raise ValueError(f"the folder {printable_path(str(root))} has a name that is not UTF-8")
        # As it was named, not resolved: a root that is a symlink keeps its items when it is turned to another folder.
        self._root = Path(file_identity(str(root.absolute())).address)
        self._patterns = PathPatterns(include, exclude)
        self._files = LocalFiles(self._root, max_bytes, clock)
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
        return await asyncio.to_thread(self._files.fetch, item.fetch_url, known)

    async def hash_of(self, item: Item) -> str | None:
        """Hash a file that is too large to be read at once; return None if that takes too long."""
        if self._refusal:
            return None
        stop = threading.Event()
        try:
            return await asyncio.to_thread(self._files.hash_of, item.fetch_url, stop.is_set)
        finally:
            stop.set()  # we may have been cancelled; the thread would read on


def judge_path(patterns: PathPatterns, path: str) -> Judgement:
    if patterns.matches(path):
        return Judgement()
    pattern = patterns.excluded_by(path)
    if pattern:
        return Judgement(EXCLUDED, f"exclude {pattern}")
    return Judgement(NOT_INCLUDED, f"include {', '.join(patterns.include)}")
