"""The outcomes of a visit, and the outcome of each HTTP response.

Every source answers like HTTP, whatever is behind it; `http_status_meanings` says what a status or a failure means.
Feeds use the same outcomes for what is missing or broken.
"""

from __future__ import annotations

from dataclasses import replace

from core.errors import FailCode, FailDetail
from core.models import Document, Failed, Fetched
from core.pages.canonical_link import trusted_canonical
from core.registry import http_headers, http_status_meanings
from core.registry.http_status_meanings import ResponseKind
from core.registry.page_visit import PageVisit
from core.registry.record import Item
from core.urls.normalise import split_url
from core.value_class import value_class


@value_class
class Changed:
    """There is a text, and it is new or was forced."""

    document: Document
    visit: PageVisit
    is_new_metadata: bool = False
    """Its title, author, date or image differ from what is stored."""


@value_class
class Unchanged:
    """The stored text is still the current one."""

    http_status: int = 304
    etag: str = ""
    last_modified: str = ""
    """New validators, if the answer had any."""
    redirects: tuple[str, ...] = ()
    canonical_url: str = ""
    """The page's canonical URL, as far as the answer tells; empty: nothing new."""
    visit: PageVisit | None = None
    """After a 200 whose text was the same."""
    is_feed_text: bool = False
    """The page keeps its text from us, and the feed's own stays."""


@value_class
class Missing:
    """There is nothing: 404, 410, no such file, or not in a complete listing."""

    http_status: int
    """0: it was not requested."""
    is_listed_nowhere: bool = False
    reason: str = ""
    """In words, where no status says so."""

    @property
    def is_certain(self) -> bool:
        """Whether it is gone for good. 410 is sent on purpose, and what a complete listing lacks is not there."""
        return self.is_listed_nowhere or http_status_meanings.status(self.http_status).kind is ResponseKind.GONE


@value_class
class Broken:
    """It could not be fetched or read this time; the stored text stays."""

    failed: Failed


@value_class
class Excluded:
    """It is there and we do not take it: robots.txt, noindex, a type we do not read, too large, no text in it."""

    reason: str
    is_by_robots: bool = False
    http_status: int = 0
    is_withdrawn: bool = False
    """The stored text is removed too: the publisher says noindex, or the file was emptied."""
    mime_type: str = ""
    content_length: int = 0
    content_hash: str = ""
    """Hash of a file too large to be read, where its source could hash it as a stream."""
    failed: Failed | None = None
    """The failure behind it, if there was one."""


@value_class
class Moved:
    """It is an alias: the same page is an item under another URL."""

    target_id: str
    visit: PageVisit
    target_hash: str = ""
    """The content hash of the target's text; an alias gives up its own text only while that one is there."""


@value_class
class Parked:
    """It has killed its workers; it is not visited again before a reindex."""

    deaths: int

    @property
    def sentence(self) -> str:
        """The error message of the record."""
        return f"Reading this killed Freshet {self.deaths} times; it is parked. `scripts.reindex` unparks it."


Outcome = Changed | Unchanged | Missing | Broken | Excluded | Moved | Parked

NO_TEXT = {FailCode.EMPTY, FailCode.BAD_HTML}
GONE_FILE = "There is no such file any more."


def from_response(item: Item, answer: Fetched | Failed, was_conditional: bool, now: float) -> Outcome | None:
    """Return the outcome of an answer without a look into its body; None: the body has to be read."""
    if isinstance(answer, Failed):
        return _from_failure(item, answer)
    match http_status_meanings.status(answer.status).kind:
        case ResponseKind.UNCHANGED:
            if was_conditional and item.has_text:
                return unchanged(item, answer)
            text = "HTTP 304, though we asked for the whole page."
            return Broken(Failed(FailCode.HTTP, FailDetail.PROTOCOL, text, 304))
        case ResponseKind.MISSING | ResponseKind.GONE:
            is_file = item.type == "file" and not answer.final_url.startswith("http")
            return Missing(answer.status, is_file, GONE_FILE if is_file else "")
    refused = refusal(answer, now)
    return Broken(refused) if refused else None


def refusal(answer: Fetched, now: float) -> Failed | None:
    """Return why this answer has no content: its status, or a redirect to the home page. None: read its body."""
    if http_status_meanings.status(answer.status).kind is not ResponseKind.OK:
        wait = http_headers.retry_after_seconds(answer.header("retry-after"), now)
        return Failed(FailCode.HTTP, FailDetail.STATUS, f"HTTP {answer.status}", answer.status, wait)
    if answer.hops and _is_home_page(answer.final_url) and not _is_home_page(answer.url):
        return Failed(FailCode.HTTP, FailDetail.REDIRECTS, "It redirects to the home page.", answer.status)
    return None


def _is_home_page(url: str) -> bool:
    parts = split_url(url)
    return parts is not None and parts.path == "/" and not parts.query


def unchanged(item: Item, answer: Fetched) -> Unchanged:
    """Return the outcome of a 304, or of the bytes we have."""
    return Unchanged(
        answer.status,
        answer.header("etag"),
        answer.header("last-modified"),
        redirects=tuple(hop.url for hop in answer.hops),
        canonical_url=item.canonical_url or answer.permanent_target,
    )


def _from_failure(item: Item, failed: Failed) -> Outcome:
    if failed.detail is FailDetail.ROBOTS:
        return Excluded(failed.text or "robots.txt does not allow it.", is_by_robots=True, failed=failed)
    if http_status_meanings.failure(failed).kind is ResponseKind.EXCLUDED and not item.has_text:
        return Excluded(failed.text or str(failed.detail), http_status=failed.http_status, failed=failed)
    return Broken(failed)


def to_failure(outcome: Missing | Broken | Excluded | Parked) -> Failed:
    """Return the failure that is recorded for a link whose visit gave no article."""
    match outcome:
        case Broken():
            return outcome.failed
        case Missing():
            text = outcome.reason or f"HTTP {outcome.http_status}"
            return Failed(FailCode.HTTP, FailDetail.STATUS, text, outcome.http_status)
        case Excluded():
            failed = outcome.failed or Failed(FailCode.PARSE, FailDetail.TYPE, outcome.reason)
            return replace(failed, http_status=failed.http_status or outcome.http_status)
        case Parked():
            return Failed(FailCode.PARSE, FailDetail.CRASH, outcome.sentence)


def by_noindex(answer: Fetched, is_stated: bool) -> Excluded | None:
    """Return the outcome of a page that asks not to be indexed, in itself (`is_stated`) or by a header; else None."""
    robots = answer.header("x-robots-tag").lower().replace(",", " ").split()
    if not is_stated and {"noindex", "none"}.isdisjoint(robots):
        return None
    return Excluded("The page asks not to be indexed (noindex).", http_status=answer.status, is_withdrawn=True)


def from_document(
    item: Item,
    visit: PageVisit,
    document: Document | Failed,
    *,
    extractor_version: str,
    force_on_canonical: bool = True,
    is_new_metadata: bool = False,
) -> Outcome:
    """Return the outcome of a body that was read."""
    if isinstance(document, Failed):
        outcome = _from_no_text(item, visit, document)
        if not isinstance(outcome, Excluded):
            return outcome
        size = visit.content_length
        return replace(outcome, http_status=visit.http_status, mime_type=visit.mime_type, content_length=size)
    if is_unchanged(item, visit, extractor_version, force_on_canonical) and not is_new_metadata:
        return Unchanged(visit.http_status, visit=visit)
    return Changed(document, visit, is_new_metadata)


def _from_no_text(item: Item, visit: PageVisit, failed: Failed) -> Outcome:
    """There is nothing to store. A file that was emptied loses its text; a page keeps what it had."""
    is_empty = failed.code in NO_TEXT and failed.detail is FailDetail.NONE
    if not is_empty:
        return _from_failure(item, failed)
    if not item.has_text:
        return Excluded(failed.text or "There is no text.", failed=failed)
    if visit.is_file:
        return Excluded("The file has no text any more.", is_withdrawn=True, failed=failed)
    return Broken(replace(failed, text="The page has no text any more; the last text is kept."))


def is_unchanged(item: Item, visit: PageVisit, extractor_version: str, force_on_canonical: bool = True) -> bool:
    """Return whether there is nothing to do. Same text, same extractor, same canonical URL, and no force."""
    has_moved = force_on_canonical and bool(item.canonical_url) and visit.canonical_url != item.canonical_url
    return (
        item.has_text
        and not item.is_forced
        and item.content_hash == visit.content_hash
        and item.extractor_version == extractor_version
        and not has_moved
    )


def canonical_url(answer: Fetched, stated: str) -> str:
    """Return the URL that identifies a page: the canonical that it states, if trusted, else its permanent redirect.

    The target of a temporary redirect may be gone tomorrow while the link that led there still works, and what the page
    behind it states says nothing about that link.
    """
    own_url = answer.permanent_target or answer.url
    if answer.hops and not answer.is_moved_for_good:
        return own_url
    return trusted_canonical(stated, answer.final_url) or own_url


def page_visit(
    item: Item,
    answer: Fetched,
    document: Document | Failed,
    body_hash: str,
    normalised: str,
    body_bytes: int | None = None,
) -> PageVisit:
    """Return what the registry stores of an answer with a body; `body_bytes` is its plain length where it is packed."""
    read = document if isinstance(document, Document) else Document()
    return PageVisit(
        normalised=normalised,
        fetched_url=answer.final_url,
        http_status=answer.status,
        etag=answer.header("etag"),
        last_modified=answer.header("last-modified"),
        content_length=len(answer.body) if body_bytes is None else body_bytes,
        redirects=[hop.url for hop in answer.hops],
        canonical_url=read.canonical_url or answer.permanent_target,
        content_hash=read.content_hash,
        # Detected once per text: an equal text has the language it had.
        language=item.language if item.language and item.content_hash == read.content_hash else read.language,
        mime_type=http_headers.media_type(answer.header("content-type")),
        extractor_version=read.extractor_version,
        body_hash=body_hash,
        image_count=len(read.images),
        is_file=item.type == "file",
    )
