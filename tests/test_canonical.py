"""What the first visit of a link means, as tables."""

from __future__ import annotations

import pytest

from core import canonical
from core.errors import FailCode, FailDetail
from core.models import Failed, Fetched, Hop

NOW = 1_800_000_000.0
URL = "https://news.example/2026/story"


def answered(status: int = 200, final_url: str = URL, **headers: str) -> Fetched:
    hops = () if final_url == URL else (Hop(URL, 302),)
    return Fetched(
        URL, final_url, status, {name.replace("_", "-"): value for name, value in headers.items()}, b"", hops
    )


@pytest.mark.parametrize("status", [200, 203])
def test_good_answers_are_read(status: int) -> None:
    """200 and 203 are pages (T20)."""
    assert canonical.refusal(answered(status), NOW) is None


@pytest.mark.parametrize("status", [204, 206, 300, 304, 400, 401, 403, 404, 410, 418, 429, 500, 503])
def test_other_statuses_are_failures_that_name_it(status: int) -> None:
    """FAIL_HTTP/status with the number."""
    failed = canonical.refusal(answered(status, retry_after="120"), NOW)

    assert failed == Failed(FailCode.HTTP, FailDetail.STATUS, f"HTTP {status}", status, 120.0)


@pytest.mark.parametrize(
    ("final_url", "refused"),
    [
        ("https://news.example/", True),
        ("https://other.example/", True),
        ("https://news.example/2026/story-2", False),
        ("https://news.example/?p=1", False),
    ],
)
def test_redirect_to_the_home_page_is_no_article(final_url: str, refused: bool) -> None:
    """A story that leads to the front page is gone (T29)."""
    failed = canonical.refusal(answered(200, final_url), NOW)

    assert (failed is not None) is refused
    assert failed is None or failed.detail is FailDetail.REDIRECTS


TRANSIENT = [
    Failed(FailCode.TIMEOUT),
    Failed(FailCode.HTTP, FailDetail.DNS),
    Failed(FailCode.HTTP, FailDetail.REFUSED),
    Failed(FailCode.HTTP, FailDetail.RESET),
    *(Failed(FailCode.HTTP, FailDetail.STATUS, "", status) for status in (408, 425, 429, 500, 502, 503, 504, 599)),
]
PERMANENT = [
    Failed(FailCode.BAD_HTML),
    Failed(FailCode.EMPTY),
    Failed(FailCode.PARSE, FailDetail.CPU),
    Failed(FailCode.PARSE, FailDetail.TYPE),
    *(
        Failed(FailCode.HTTP, detail)
        for detail in (
            FailDetail.TLS,
            FailDetail.TOO_LARGE,
            FailDetail.REDIRECTS,
            FailDetail.BLOCKED,
            FailDetail.ROBOTS,
            FailDetail.PROTOCOL,
            FailDetail.URL,
        )
    ),
    *(Failed(FailCode.HTTP, FailDetail.STATUS, "", status) for status in (204, 400, 401, 403, 404, 410, 451)),
]


@pytest.mark.parametrize("failed", TRANSIENT, ids=str)
def test_transient_failures_are_tried_three_times_more(failed: Failed) -> None:
    """After 10 minutes, an hour and six hours; then never (T24)."""
    waits = [canonical.retry_at(failed, tries, NOW) for tries in range(4)]

    assert waits == [NOW + 600, NOW + 3600, NOW + 21600, None]


@pytest.mark.parametrize("failed", PERMANENT, ids=str)
def test_permanent_failures_are_not(failed: Failed) -> None:
    """What cannot get better is not tried again."""
    assert canonical.retry_at(failed, 0, NOW) is None


def test_retry_after_is_never_undercut() -> None:
    """A server that asks for an hour gets an hour."""
    failed = Failed(FailCode.HTTP, FailDetail.STATUS, "", 503, retry_after_seconds=4000)

    assert canonical.retry_at(failed, 0, NOW) == NOW + 4000


@pytest.mark.parametrize(
    ("name", "final_url", "canonical_url", "expected"),
    [
        ("as it is", URL, "", URL),
        ("where redirects end", URL + "-2", "", URL + "-2"),
        ("trusted canonical", URL + "?page=1", URL, URL),
        ("trailing slash and order do not matter", URL + "/?b=1&a=2", "", URL + "?a=2&b=1"),
        ("canonical to the home page is not believed", URL, "https://news.example/", URL),
        ("canonical to somebody else is not believed", URL, "https://evil.example/2026/story", URL),
    ],
)
def test_identity(name: str, final_url: str, canonical_url: str, expected: str) -> None:
    """All names of one page share one normal form (T48)."""
    assert canonical.identity(URL, final_url, canonical_url) == expected


@pytest.mark.parametrize(
    ("stated", "in_feed", "expected"),
    [
        (NOW - 10, NOW - 20, NOW - 10),
        (None, NOW - 20, NOW - 20),
        (NOW + 10 * 86400, NOW - 20, NOW - 20),
        (0.0, None, None),
        (None, None, None),
    ],
)
def test_published_time_must_be_possible(stated: float | None, in_feed: float | None, expected: float | None) -> None:
    """Neither 1970 nor next month; the feed's date stands in."""
    assert canonical.published(stated, in_feed, NOW) == expected


@pytest.mark.parametrize(
    ("status", "may"), [(401, True), (403, True), (451, True), (404, False), (410, False), (503, False)]
)
def test_feed_text_stands_in_for_closed_doors_only(status: int, may: bool) -> None:
    """A page that is kept from us may be read from the feed; one that is gone is gone."""
    assert canonical.may_use_feed_text(Failed(FailCode.HTTP, FailDetail.STATUS, "", status)) is may
