"""What a visit can find, and how an answer is read.

Sources answer in the words of HTTP, whatever stands behind them; here those words get their meaning for an item.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from core import canonical, http_headers
from core.errors import FailCode, FailDetail
from core.models import Document, Failed, Fetched
from core.registry import Item, PageVisit


@dataclass(frozen=True, slots=True)
class Changed:
    """There is a text, and it is new to us or wanted anew."""

    document: Document
    visit: PageVisit


@dataclass(frozen=True, slots=True)
class Unchanged:
    """What we have is what is there."""

    http_status: int = 304
    etag: str = ""
    last_modified: str = ""
    """New validators, if the answer had any."""
    visit: PageVisit | None = None
    """After a 200 whose text was the same."""


@dataclass(frozen=True, slots=True)
class Missing:
    """The place says that there is nothing: 404, 410, no such file, not in a complete listing."""

    http_status: int
    """0: nobody asked."""
    is_listed_nowhere: bool = False
    reason: str = ""
    """In words, where it is not a status that says so."""

    @property
    def is_certain(self) -> bool:
        """410 is said on purpose, and what a complete listing lacks is not there."""
        return self.http_status == 410 or self.is_listed_nowhere


@dataclass(frozen=True, slots=True)
class Broken:
    """It could not be had this time; what we have stays."""

    failed: Failed


@dataclass(frozen=True, slots=True)
class Excluded:
    """It is there and not for us: robots.txt, noindex, a type we do not read, too large."""

    reason: str
    is_by_robots: bool = False
    http_status: int = 0
    is_withdrawn: bool = False
    """Its publisher asks that it is not found: what we have of it goes too."""
    mime_type: str = ""
    content_length: int = 0
    content_hash: str = ""
    """Of a file that is too large to be read, where its source could hash it piece by piece (spec 000 §5)."""


@dataclass(frozen=True, slots=True)
class Moved:
    """The same page under another name that we know: this one is an alias."""

    target_id: str
    visit: PageVisit


@dataclass(frozen=True, slots=True)
class Parked:
    """It has killed its workers; nobody touches it before somebody asks for it."""

    deaths: int


Outcome = Changed | Unchanged | Missing | Broken | Excluded | Moved | Parked

NOT_FOR_US = {FailDetail.TOO_LARGE, FailDetail.TYPE, FailDetail.BLOCKED, FailDetail.URL}
"""Failures that say something about the thing, not about the moment."""
NO_TEXT = {FailCode.EMPTY, FailCode.BAD_HTML}


def of_answer(item: Item, answer: Fetched | Failed, was_conditional: bool, now: float) -> Outcome | None:
    """The meaning of an answer without a look into its body; None: the body has to be read."""
    if isinstance(answer, Failed):
        return _of_failure(item, answer)
    if answer.status == 304:
        return _of_304(item, answer, was_conditional)
    if answer.status in (404, 410):
        is_file = item.type == "file" and not answer.final_url.startswith("http")
        return Missing(answer.status, is_file, "There is no such file any more." if is_file else "")
    refused = canonical.refusal(answer, now)
    return Broken(refused) if refused else None


def _of_304(item: Item, answer: Fetched, was_conditional: bool) -> Outcome:
    if was_conditional and item.has_text:
        return Unchanged(304, answer.header("etag"), answer.header("last-modified"))
    text = "HTTP 304, though we asked for the whole page."
    return Broken(Failed(FailCode.HTTP, FailDetail.PROTOCOL, text, 304))


def _of_failure(item: Item, failed: Failed) -> Outcome:
    if failed.detail is FailDetail.ROBOTS:
        return Excluded(failed.text or "robots.txt does not allow it.", is_by_robots=True)
    if failed.detail in NOT_FOR_US and not item.has_text:
        return Excluded(failed.text or str(failed.detail), http_status=failed.http_status)
    return Broken(failed)


def of_document(
    item: Item,
    visit: PageVisit,
    document: Document | Failed,
    *,
    extractor_version: str,
    force_on_canonical: bool = True,
) -> Outcome:
    """The meaning of a body that was read."""
    if isinstance(document, Failed):
        is_empty = document.code in NO_TEXT and document.detail is FailDetail.NONE and not item.has_text
        outcome = Excluded(document.text or "There is no text.") if is_empty else _of_failure(item, document)
        return _told(outcome, visit) if isinstance(outcome, Excluded) else outcome
    if is_same(item, visit, extractor_version, force_on_canonical):
        return Unchanged(visit.http_status, visit=visit)
    return Changed(document, visit)


def _told(outcome: Excluded, visit: PageVisit) -> Excluded:
    """With what the answer said of itself."""
    return replace(
        outcome,
        http_status=visit.http_status,
        mime_type=visit.mime_type,
        content_length=visit.content_length,
    )


def is_same(item: Item, visit: PageVisit, extractor_version: str, force_on_canonical: bool = True) -> bool:
    """Is there nothing to do? Same text, same reader, nobody asked for more, and it still calls itself the same."""
    has_moved = force_on_canonical and bool(item.canonical_url) and visit.canonical_url != item.canonical_url
    return (
        item.has_text
        and not item.is_forced
        and item.content_hash == visit.content_hash
        and item.extractor_version == extractor_version
        and not has_moved
    )


def facts(item: Item, answer: Fetched, document: Document | Failed, body_hash: str, normalised: str) -> PageVisit:
    """What the registry wants to know of an answer with a body."""
    read = document if isinstance(document, Document) else Document()
    return PageVisit(
        normalised=normalised,
        fetched_url=answer.final_url,
        http_status=answer.status,
        etag=answer.header("etag"),
        last_modified=answer.header("last-modified"),
        content_length=len(answer.body),
        redirects=[hop.url for hop in answer.hops],
        canonical_url=read.canonical_url,
        content_hash=read.content_hash,
        # Detected once per text: an equal text has the language it had (spec 000 §10).
        language=item.language if item.language and item.content_hash == read.content_hash else read.language,
        mime_type=http_headers.media_type(answer.header("content-type")),
        extractor_version=read.extractor_version,
        body_hash=body_hash,
        image_count=len(read.images),
        is_file=item.type == "file",
    )
