"""The registry record: what it says, and what a visit writes into it. Tables."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime

import pytest

from core.registry.blank_record import blank_record, partition
from core.registry.page_visit import PageVisit, visited_fields
from core.registry.record import FIELDS, Item, content_group, iso, parse_record

NOW = 1_763_000_000.0
VISIT = PageVisit(
    normalised="https://contoso.com/a",
    fetched_url="https://contoso.com/a/",
    http_status=200,
    etag='W/"a1b2c3"',
    last_modified="Thu, 13 Nov 2025 02:13:20 GMT",
    content_length=45_231,
    redirects=("https://contoso.com/old",),
    canonical_url="https://contoso.com/a",
    content_hash="hash",
    language="en",
    mime_type="text/html",
    extractor_version="1",
    body_hash="body",
    image_count=3,
)


def stored(record: dict[str, str], *, has_text: bool = False, via: str = "") -> Item:
    """A record as it comes back from a hash."""
    text_hash = "h" if has_text else None
    found = parse_record(record["id"], [record.get(name) for name in FIELDS], text_hash, via)
    assert found is not None
    return found


# ── names ──


@pytest.mark.parametrize(
    ("normalised", "kind", "strategy", "wanted"),
    [
        ("https://contoso.com/a", "url", "host", "contoso.com"),
        ("https://contoso.com:8443/a", "url", "host", "contoso.com"),
        ("https://contoso.com/a", "url", "scheme", "https"),
        ("http://contoso.com/a", "url", "scheme", "http"),
        ("http://[2001:db8::1]/a", "url", "host", "2001:db8::1"),
        ("/srv/a", "file", "host", "file"),
        ("c:/docs/a", "file", "host", "file"),
        ("//server/share/a", "file", "host", "share"),
        ("https://acc.blob.core.windows.net/c/a", "file", "host", "blob"),
        ("https://acc.blob.core.windows.net/c/a", "file", "scheme", "blob"),
    ],
)
def test_partition_key(normalised: str, kind: str, strategy: str, wanted: str) -> None:
    """The host of a URL or its scheme; of a file always its scheme."""
    assert partition(normalised, kind, strategy) == wanted


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("https://contoso.com/a", "http://contoso.com/a", True),
        ("https://contoso.com/a", "https://contoso.com/a?page=2", True),
        ("https://contoso.com/a", "https://contoso.com/a/", True),
        ("https://contoso.com/a", "https://contoso.com/b", False),
        ("https://contoso.com/a", "https://fabrikam.com/a", False),
        ("/srv/a", "/srv/b", False),
    ],
)
def test_content_group(one: str, other: str, is_same: bool) -> None:
    """One group for http and https and for trivial variants of the query."""
    assert (content_group(one) == content_group(other)) is is_same


def test_times_are_written_as_the_spec_writes_them() -> None:
    """ISO in UTC, seconds, Z."""
    assert iso(NOW) == "2025-11-13T02:13:20Z"


@pytest.mark.parametrize("fraction", [0, 0.4, 0.9994, 0.9996, 0.99999])
def test_times_name_the_second_of_the_score(fraction: float) -> None:
    """A record and its due set agree to the second; scores are rounded to milliseconds."""
    score = float(f"{NOW + fraction:.3f}")
    assert datetime.fromisoformat(iso(NOW + fraction)).timestamp() == int(score)


# ── there and back ──


def test_blank_record_reads_back_as_a_pending_item() -> None:
    """Never visited: due, without a text, without validators, not forced."""
    found = stored(blank_record("https://contoso.com/a", "https://contoso.com/a/", NOW) | {"sources": "docs.site"})

    assert found == Item(
        id=found.id,
        source="https://contoso.com/a",
        fetch_url="https://contoso.com/a/",
        sources=("docs.site",),
        stored_status="Pending",
        stored_sources="docs.site",
        redirect_chain="[]",
        first_seen="2025-11-13T02:13:20Z",
        next_crawl_at="2025-11-13T02:13:20Z",
    )
    assert found.next_ts == NOW
    assert not found.is_forced


def test_visited_record_reads_back_with_what_the_visit_learnt() -> None:
    """The ETag byte for byte, and the URL it belongs to."""
    found = stored(
        blank_record("https://contoso.com/a", "https://contoso.com/a", NOW) | visited_fields(VISIT), has_text=True
    )

    assert (found.etag, found.validators_url) == ('W/"a1b2c3"', "https://contoso.com/a/")
    assert (found.content_hash, found.body_hash, found.extractor_version) == ("hash", "body", "1")
    assert (found.content_length, found.http_status, found.mime_type) == (45_231, 200, "text/html")
    assert found.has_text


def test_every_field_that_is_read_is_written_or_has_a_default() -> None:
    """An old or half record reads as well: what is missing counts as nothing."""
    found = parse_record("url_x", ["Crawled", *[None] * (len(FIELDS) - 1)], False)

    assert found is not None
    assert found.sources == ("rss",)  # written before there were other sources
    assert (found.generation, found.failures, found.checked_ts, found.next_ts) == (0, 0, 0.0, None)
    assert parse_record("url_x", [None] * len(FIELDS), False) is None


def test_source_that_asked_is_learnt() -> None:
    """An item that does not know who listed it is told; one that does is not told twice."""
    record = blank_record("https://contoso.com/a", "https://contoso.com/a", NOW)

    assert stored(record, via="docs.site").sources == ("docs.site",)
    assert stored(record | {"sources": "rss,docs.site"}, via="docs.site").sources == ("rss", "docs.site")


@pytest.mark.parametrize(("generation", "processed", "is_forced"), [(0, 0, False), (1, 0, True), (3, 3, False)])
def test_force_is_one_counter(generation: int, processed: int, is_forced: bool) -> None:
    """Forced is what was asked for more often than done."""
    assert Item("x", generation=generation, processed_generation=processed).is_forced is is_forced


# ── what a visit writes ──


def test_visit_of_a_page_writes_no_file_fields() -> None:
    """http* of a URL; file* stay as they were: empty."""
    fields = visited_fields(VISIT)

    assert json.loads(fields["httpRedirectChain"]) == ["https://contoso.com/old"]
    assert (fields["imageCount"], fields["errorMessage"], fields["aliasOf"]) == ("3", "", "")
    assert fields["contentHash"] == fields["textHash"] == "hash"
    assert not [name for name in fields if name.startswith("file")]


def test_visit_of_a_file_writes_both() -> None:
    """The record names file.etag, lastModified (ISO), length and contentType; the validators stay where they are."""
    fields = visited_fields(dataclasses.replace(VISIT, is_file=True))

    assert fields["fileEtag"] == fields["httpEtag"] == 'W/"a1b2c3"'
    assert fields["fileLastModified"] == "2025-11-13T02:13:20Z"
    assert fields["httpLastModified"] == "Thu, 13 Nov 2025 02:13:20 GMT"
    assert (fields["fileLength"], fields["fileContentType"]) == ("45231", "text/html")


@pytest.mark.parametrize(
    "date", ["", "yesterday", "Thu, 99 Nov 2025 02:13:20 GMT", "Thu, 13 Nov 99999999 02:13:20 GMT"]
)
def test_date_that_is_none_is_empty(date: str) -> None:
    """A server's nonsense stops nothing."""
    assert visited_fields(dataclasses.replace(VISIT, is_file=True, last_modified=date))["fileLastModified"] == ""
