"""Parse the answers of GitHub's REST API: trees, blob shas, content types, rate limits.

Pure: bytes and headers in, values out. `core.sources.io.github` decides which requests are made.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, NamedTuple, TypeVar

import msgspec

from core.feeds.encoding import is_utf_8
from core.models import ListingBatch, Ref, RejectedUrl
from core.pages.documents.file_type import MEDIA_TYPES
from core.registry.http_headers import LONGEST_RETRY_AFTER_SECONDS, media_type, retry_after_seconds
from core.sources.github_names import is_branch, quote_path
from core.urls.normalise import clean_url
from core.urls.path_patterns import PathPatterns

T = TypeVar("T")

BATCH_ITEMS = 500
LIMIT_SECONDS = 60.0
"""How long to stay away when GitHub asks for it without a number, as its documentation has it."""
LIMIT_STATUSES = frozenset({403, 429})

_BLOB_MODES = frozenset({"100644", "100755", "100664"})
_SYMLINK_MODE = "120000"

_TYPES = {**MEDIA_TYPES, "rst": "text/x-rst", "adoc": "text/asciidoc"}
# What raw files are served as, whatever they are: it says nothing.
_UNSPECIFIC = frozenset({"", "text/plain", "application/octet-stream"})


# ── trees ───────────────────────────────────────────────────────────────────────────────────────

_SHA = r"^[0-9a-f]{40}$"
Sha = Annotated[str, msgspec.Meta(pattern=_SHA)]


class TreeEntry(msgspec.Struct, frozen=True):
    """Something in a tree: a file, a folder, a submodule."""

    path: str
    mode: str
    type: str
    sha: Sha
    size: int | None = None


class GitTree(msgspec.Struct, frozen=True):
    """A listing of a folder, with all below it if the request was recursive and it fits."""

    tree: tuple[TreeEntry, ...]
    truncated: bool
    """Required: an answer that does not say whether it is whole is not believed."""


class _About(msgspec.Struct):
    default_branch: str


_trees = msgspec.json.Decoder(GitTree)
_abouts = msgspec.json.Decoder(_About)
_shas = msgspec.json.Decoder(Sha)


def parse_tree(body: bytes) -> GitTree | None:
    return _decoded(_trees, body)


def parse_default_branch(body: bytes) -> str | None:
    """Return the default branch in the answer about a repository, or None."""
    about = _decoded(_abouts, body)
    return about.default_branch if about and is_branch(about.default_branch) else None


def parse_commit(body: bytes) -> str | None:
    """Return the sha that is the whole answer, or None."""
    return _decoded(_shas, b'"' + body.strip() + b'"')


def _decoded(decoder: msgspec.json.Decoder[T], body: bytes) -> T | None:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class BranchFilter(NamedTuple):
    """Where the files of a branch are, and which of them are taken."""

    address: str
    """What their URLs begin with, branch included, with a slash at the end."""
    patterns: PathPatterns
    max_bytes: int

    def classify(self, entry: TreeEntry, path: str) -> Ref | RejectedUrl | None:
        """Return a file that is taken, why it is refused, or None for folders and what the patterns leave out."""
        if entry.type == "tree":
            return None
        if entry.type == "commit":
            return RejectedUrl(self.address + quote_path(path), "submodule")
        if not self.patterns.matches(path):
            return None
        address = self.address + quote_path(path)
        cleaned = clean_url(address)
        if isinstance(cleaned, RejectedUrl):
            return cleaned
        if cleaned != address:  # a URL parser would make another file of it
            return RejectedUrl(address, "path")
        if entry.mode == _SYMLINK_MODE:
            return RejectedUrl(address, "symlink")
        if entry.type != "blob" or entry.mode not in _BLOB_MODES:
            return RejectedUrl(address, "no file")
        if (entry.size or 0) > self.max_bytes:
            return RejectedUrl(address, "too large")
        return Ref(address, depth=path.count("/"), version=entry.sha)


def folders(tree: GitTree, prefix: str, patterns: PathPatterns) -> Iterator[tuple[str, str]]:
    """Yield the folders to walk, each with its path and sha; not those in which nothing is taken."""
    for entry in tree.tree:
        if entry.type == "tree" and not patterns.excludes_folder(prefix + entry.path):
            yield f"{prefix}{entry.path}/", entry.sha


def batches(tree: GitTree, prefix: str, branch_filter: BranchFilter) -> Iterator[ListingBatch]:
    """Yield the files of a tree that the filter takes or refuses."""
    refs: list[Ref] = []
    refused: list[RejectedUrl] = []
    for entry in tree.tree:
        match branch_filter.classify(entry, prefix + entry.path):
            case Ref() as ref:
                refs.append(ref)
            case RejectedUrl() as rejected:
                refused.append(rejected)
        if len(refs) + len(refused) >= BATCH_ITEMS:
            yield ListingBatch(tuple(refs), tuple(refused))
            refs, refused = [], []
    if refs or refused:
        yield ListingBatch(tuple(refs), tuple(refused))


# ── files ───────────────────────────────────────────────────────────────────────────────────────


def blob_sha(body: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(body) + body, usedforsecurity=False).hexdigest()


def is_sha(text: str) -> bool:
    return re.match(_SHA, text) is not None


def sha_of_etag(value: str) -> str:
    """Return the blob sha that we gave as an ETag."""
    return value.strip().removeprefix("W/").strip('"')


def content_type(stated: str, url: str, body: bytes) -> str:
    """Return what the file is: by its name where the server does not really say; UTF-8 only where that is true."""
    mime_type = media_type(stated)
    if mime_type.startswith("application/vnd.github."):
        mime_type = ""  # the API's word for raw content
    if mime_type not in _UNSPECIFIC:
        return stated
    ending = url.rpartition("/")[2].rpartition(".")[2].lower()
    kind = _TYPES.get(ending, mime_type or "application/octet-stream")
    is_plain = kind.startswith("text/") and kind != "text/html"  # HTML may say better itself
    return f"{kind}; charset=utf-8" if is_plain and is_utf_8(body) else kind


# ── limits ──────────────────────────────────────────────────────────────────────────────────────


def limit_seconds(status: int, headers: Mapping[str, str], body: bytes, now: float) -> float:
    """Return how long GitHub wants to be left alone after this answer; 0 if it does not say so.

    An answer of 200 can be the last one of the hour: it is good, and the next one would not be.
    """
    is_refusal = status in LIMIT_STATUSES
    retry_after = retry_after_seconds(headers.get("retry-after", ""), now) if is_refusal else None
    if retry_after:
        return retry_after
    if headers.get("x-ratelimit-remaining", "").strip() == "0":
        reset = headers.get("x-ratelimit-reset", "").strip()
        left = float(reset) - now if reset.isdecimal() and len(reset) < 16 else 0.0
        # A reset in the past, after a refusal: the clocks differ.
        return min(left, LONGEST_RETRY_AFTER_SECONDS) if left > 0 else LIMIT_SECONDS * is_refusal
    is_secondary = status == 429 or (status == 403 and b"secondary rate limit" in body.lower())
    return LIMIT_SECONDS if is_secondary else 0.0
