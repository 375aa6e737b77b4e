"""What an answer means for an item, whatever stands behind it. Tables; what is done about it is `test_decide`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.errors import FailCode, FailDetail
from core.models import Document, Failed, Fetched, Hop, Image
from core.registry import outcomes
from core.registry.outcomes import Broken, Changed, Excluded, Missing, Outcome, Unchanged
from core.registry.record import Item

NOW = 1_763_000_000.0
PAGE = Item("url_x", source="https://e.org/a", fetch_url="https://e.org/a", has_text=True, content_hash="h")
PAGE = replace(PAGE, extractor_version="1", language="en", etag='"1"')
NEW = replace(PAGE, has_text=False, content_hash="", extractor_version="", language="", etag="")
FILE = replace(PAGE, id="file_x", type="file", source="/srv/a.md", fetch_url="/srv/a.md")
BLOB = replace(FILE, fetch_url="https://acc.blob.core.windows.net/c/a.md")


def answered(
    status: int, item: Item = PAGE, final_url: str = "", hops: tuple[Hop, ...] = (), **headers: str
) -> Fetched:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Fetched(item.fetch_url, final_url or item.fetch_url, status, named, b"body", hops)


def meaning(item: Item, answer: Fetched | Failed, was_conditional: bool = True) -> Outcome | None:
    return outcomes.from_response(item, answer, was_conditional, NOW)


# ── answers ──


@pytest.mark.parametrize("status", [200, 203])
def test_good_answer_has_to_be_read(status: int) -> None:
    """No meaning without a look into the body."""
    assert meaning(PAGE, answered(status)) is None


def test_304_confirms_what_we_have() -> None:
    """With new validators, if it has any."""
    assert meaning(PAGE, answered(304, etag='"2"')) == Unchanged(304, '"2"', "")


@pytest.mark.parametrize(("item", "was_conditional"), [(PAGE, False), (NEW, True), (NEW, False)])
def test_304_that_confirms_nothing_is_a_failure(item: Item, was_conditional: bool) -> None:
    """Unasked, or without a text that it could be about."""
    found = meaning(item, answered(304), was_conditional)

    assert isinstance(found, Broken)
    assert found.failed.detail is FailDetail.PROTOCOL


@pytest.mark.parametrize(
    ("item", "status", "is_certain"),
    [
        (PAGE, 404, False),
        (PAGE, 410, True),
        (FILE, 404, True),  # a disk does not err about what is not there
        (BLOB, 404, False),  # a server may
        (BLOB, 410, True),
    ],
)
def test_missing(item: Item, status: int, is_certain: bool) -> None:
    """404 is a hint, 410 and a disk's word are certain."""
    found = meaning(item, answered(status, item))

    assert isinstance(found, Missing)
    assert (found.http_status, found.is_certain) == (status, is_certain)


@pytest.mark.parametrize("status", [401, 403, 408, 429, 451, 500, 502, 503, 504, 204, 418])
def test_other_statuses_are_trouble(status: int) -> None:
    """Never a deletion, never a text; Retry-After goes along."""
    found = meaning(PAGE, answered(status, retry_after="120"))

    assert isinstance(found, Broken)
    assert (found.failed.http_status, found.failed.retry_after_seconds) == (status, 120)


def test_redirect_to_the_home_page_is_no_page() -> None:
    """What many sites do instead of a 404."""
    found = meaning(PAGE, answered(200, final_url="https://e.org/", hops=(Hop("https://e.org/a", 302),)))

    assert isinstance(found, Broken)


# ── failures ──


@pytest.mark.parametrize("detail", [FailDetail.TOO_LARGE, FailDetail.TYPE, FailDetail.BLOCKED, FailDetail.URL])
def test_what_is_not_for_us_is_excluded_unless_we_have_its_text(detail: FailDetail) -> None:
    """It says something about the thing; but a text that we have is not given up for it."""
    failed = Failed(FailCode.HTTP, detail, "Not for us.")

    assert meaning(NEW, failed) == Excluded("Not for us.", failed=failed)
    assert meaning(PAGE, failed) == Broken(failed)


def test_robots_exclude_in_any_case() -> None:
    """With a sentence even where the failure has none."""
    failed = Failed(FailCode.HTTP, FailDetail.ROBOTS)

    for item in (NEW, PAGE):
        found = meaning(item, failed)
        assert isinstance(found, Excluded)
        assert (found.is_by_robots, found.reason) == (True, "robots.txt does not allow it.")


@pytest.mark.parametrize(
    "detail", [FailDetail.DNS, FailDetail.REFUSED, FailDetail.RESET, FailDetail.TLS, FailDetail.NONE]
)
@pytest.mark.parametrize("code", [FailCode.HTTP, FailCode.TIMEOUT])
def test_trouble_of_the_moment_is_no_verdict(code: FailCode, detail: FailDetail) -> None:
    """Whether we have a text or not."""
    failed = Failed(code, detail, "No.")

    assert meaning(NEW, failed) == meaning(PAGE, failed) == Broken(failed)


# ── documents ──


def judged(item: Item, document: Document | Failed, force_on_canonical: bool = True) -> Outcome:
    visit = outcomes.page_visit(item, answered(200, item), document, "body", item.source)
    return outcomes.from_document(item, visit, document, extractor_version="1", force_on_canonical=force_on_canonical)


def text(content_hash: str = "h", **more: str) -> Document:
    return Document(content_hash=content_hash, extractor_version="1", **more)


@pytest.mark.parametrize(
    ("what", "item", "document", "wanted"),
    [
        ("new", NEW, text(), Changed),
        ("another text", PAGE, text("other"), Changed),
        ("same text", PAGE, text(), Unchanged),
        ("forced", replace(PAGE, generation=1), text(), Changed),
        ("another reader", replace(PAGE, extractor_version="0"), text(), Changed),
        ("our text is lost", replace(PAGE, has_text=False), text(), Changed),
        (
            "another canonical",
            replace(PAGE, canonical_url="https://e.org/b"),
            text(canonical_url="https://e.org/c"),
            Changed,
        ),
        ("its first canonical", PAGE, text(canonical_url="https://e.org/c"), Unchanged),
        ("no text, and we have none", NEW, Failed(FailCode.EMPTY), Excluded),
        ("no text, but we have one", PAGE, Failed(FailCode.EMPTY), Broken),
        ("a file that was emptied", FILE, Failed(FailCode.EMPTY), Excluded),
        ("its reader died", NEW, Failed(FailCode.PARSE, FailDetail.MEMORY), Broken),
        ("no type of ours", NEW, Failed(FailCode.PARSE, FailDetail.TYPE, "No."), Excluded),
        ("no type of ours any more", PAGE, Failed(FailCode.PARSE, FailDetail.TYPE, "No."), Broken),
    ],
)
def test_documents(what: str, item: Item, document: Document | Failed, wanted: type) -> None:
    """Changed only for a reason; what we have is given up for none."""
    assert isinstance(judged(item, document), wanted), what


def test_emptied_file_gives_up_its_text_and_an_emptied_page_says_so() -> None:
    """A disk does not err about what a file holds; a page may be empty for a moment."""
    emptied, blank = judged(FILE, Failed(FailCode.EMPTY)), judged(PAGE, Failed(FailCode.EMPTY))

    assert isinstance(emptied, Excluded)
    assert emptied.is_withdrawn
    assert isinstance(blank, Broken)
    assert "no text any more" in blank.failed.text


def test_canonical_counts_only_if_it_is_asked_for() -> None:
    """FORCE_REINDEX_ON_CANONICAL_CHANGE=false: the same text is the same text."""
    item = replace(PAGE, canonical_url="https://e.org/b")

    assert isinstance(judged(item, text(canonical_url="https://e.org/c"), False), Unchanged)


def test_unchanged_after_a_body_brings_new_validators() -> None:
    """200 with the same text: its facts go into the record."""
    found = judged(PAGE, text())

    assert isinstance(found, Unchanged)
    assert found.http_status == 200
    assert found.visit is not None


# ── facts ──


def test_facts_of_a_page() -> None:
    """Validators byte for byte, media type without its parameters, the chain of redirects, the images counted."""
    answer = answered(
        200,
        final_url="https://e.org/b",
        hops=(Hop("https://e.org/a", 301),),
        etag='W/"x"',
        last_modified="Thu, 13 Nov 2025 02:13:20 GMT",
        content_type="text/HTML; charset=utf-8",
    )
    document = Document(content_hash="h2", language="de", images=(Image("https://e.org/i.jpg"),))

    found = outcomes.page_visit(PAGE, answer, document, "bytes", PAGE.source)

    assert (found.etag, found.last_modified) == ('W/"x"', "Thu, 13 Nov 2025 02:13:20 GMT")
    assert (found.mime_type, found.content_length, found.image_count) == ("text/html", 4, 1)
    assert (found.fetched_url, list(found.redirects)) == ("https://e.org/b", ["https://e.org/a"])
    assert (found.language, found.body_hash, found.is_file) == ("de", "bytes", False)


@pytest.mark.parametrize(("item", "is_file"), [(PAGE, False), (FILE, True), (BLOB, True)])
def test_files_and_blobs_are_files(item: Item, is_file: bool) -> None:
    """Their records have file* fields."""
    assert outcomes.page_visit(item, answered(200, item), text(), "b", item.source).is_file is is_file


def test_language_is_detected_once_per_text() -> None:
    """An equal text has the language it had; another one has its own."""

    def language(item: Item, document: Document) -> str:
        return outcomes.page_visit(item, answered(200), document, "b", item.source).language

    assert language(PAGE, text(language="fr")) == "en"
    assert language(PAGE, text("other", language="fr")) == "fr"
    assert language(NEW, text("other", language="fr")) == "fr"
