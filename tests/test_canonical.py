"""What a page is called and when it was published, as tables."""

from __future__ import annotations

import pytest

from core.errors import FailCode, FailDetail
from core.models import Document, Failed, Fetched, Hop
from core.registry import article_fields, outcomes
from core.urls.normalise import normalise_url

NOW = 1_800_000_000.0
URL = "https://news.example/2026/story"


def answered(status: int = 200, final_url: str = URL, hop: int = 302, **headers: str) -> Fetched:
    hops = () if final_url == URL else (Hop(URL, hop),)
    return Fetched(
        URL, final_url, status, {name.replace("_", "-"): value for name, value in headers.items()}, b"", hops
    )


@pytest.mark.parametrize("status", [200, 203])
def test_good_answers_are_read(status: int) -> None:
    """200 and 203 are pages."""
    assert outcomes.refusal(answered(status), NOW) is None


@pytest.mark.parametrize("status", [204, 206, 300, 304, 400, 401, 403, 404, 410, 418, 429, 500, 503])
def test_other_statuses_are_failures_that_name_it(status: int) -> None:
    """FAIL_HTTP/status with the number."""
    failed = outcomes.refusal(answered(status, retry_after="120"), NOW)

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
    """A story that leads to the front page is gone."""
    failed = outcomes.refusal(answered(200, final_url), NOW)

    assert (failed is not None) is refused
    assert failed is None or failed.detail is FailDetail.REDIRECTS


@pytest.mark.parametrize(
    ("name", "final_url", "hop", "canonical_url", "expected"),
    [
        ("as it is", URL, 301, "", URL),
        ("where permanent redirects lead", URL + "-2", 301, "", URL + "-2"),
        ("a temporary redirect moves nothing", URL + "-2", 302, "", URL),
        ("nor does 303", URL + "-2", 303, "", URL),
        ("nor does 307", URL + "-2", 307, "", URL),
        ("308 does", URL + "-2", 308, "", URL + "-2"),
        ("nor what a page behind a temporary redirect calls itself", URL + "-2", 302, URL + "-2", URL),
        ("trusted canonical", URL + "?page=1", 301, URL, URL),
        ("trailing slash and order do not matter", URL + "/?b=1&a=2", 301, "", URL + "?a=2&b=1"),
        ("canonical to the home page is not believed", URL, 301, "https://news.example/", URL),
        ("canonical to somebody else is not believed", URL, 301, "https://evil.example/2026/story", URL),
    ],
)
def test_real_name(name: str, final_url: str, hop: int, canonical_url: str, expected: str) -> None:
    """All names of one page share one normal form, and only what is permanent changes it."""
    assert normalise_url(outcomes.canonical_url(answered(200, final_url, hop), canonical_url)) == expected


def test_permanent_redirects_count_up_to_the_first_temporary_one() -> None:
    """301 to /b, then 302 to a signed address: /b is the name, and what is asked next time."""
    hops = (Hop(URL, 301), Hop("https://news.example/b", 302))
    answer = Fetched(URL, "https://cdn.example/b?expires=1", 200, {}, b"", hops)

    assert outcomes.canonical_url(answer, "") == answer.permanent_target == "https://news.example/b"


PAST, EARLIER, FUTURE = NOW - 10, NOW - 20, NOW + 10 * 86_400


@pytest.mark.parametrize(
    ("name", "of_page", "is_guessed", "known", "known_from", "expected"),
    [
        ("stated", PAST, False, EARLIER, "feed", (PAST, "page")),
        ("guessed, and in the feed", PAST, True, EARLIER, "feed", (EARLIER, "feed")),
        ("guessed, and stated before", PAST, True, EARLIER, "page", (EARLIER, "page")),
        ("guessed, and guessed before", PAST, True, EARLIER, "guess", (PAST, "guess")),
        ("guessed, and stored before sources were noted", PAST, True, EARLIER, "", (PAST, "guess")),
        ("guessed, and a feed that is ahead of time", PAST, True, FUTURE, "feed", (PAST, "guess")),
        ("only in the feed", None, False, EARLIER, "feed", (EARLIER, "feed")),
        ("a page that is ahead of time", FUTURE, False, EARLIER, "feed", (EARLIER, "feed")),
        ("before the web", 0.0, False, None, "feed", (None, "")),
        ("nowhere", None, False, None, "", (None, "")),
    ],
)
def test_published(
    name: str,
    of_page: float | None,
    is_guessed: bool,
    known: float | None,
    known_from: str,
    expected: tuple[float | None, str],
) -> None:
    """What the page states, what its feed said, what the page seems to say; neither 1970 nor next month."""
    document = Document(published_ts=of_page, is_date_guessed=is_guessed)
    otherwise = {"published_ts": "" if known is None else str(known), "published_source": known_from}
    assert article_fields.publication(document, otherwise, NOW) == expected
