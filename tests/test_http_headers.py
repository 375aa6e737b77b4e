"""What headers say about time and type."""

from __future__ import annotations

import pytest

from core.registry.http_headers import cache_lifetime_seconds, charset, http_date_ts, media_type, retry_after_seconds

NOW = 1_445_412_400.0
DATE = "Wed, 21 Oct 2015 07:28:00 GMT"  # 80 seconds after NOW


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("120", 120),
        (" 7 ", 7),
        ("0", 0),
        ("1.5", 1.5),
        (DATE, 80),
        ("Wednesday, 21-Oct-15 07:28:00 GMT", 80),
        ("Wed Oct 21 07:28:00 2015", 80),
        ("Wed, 21 Oct 2015 09:28:00 +0200", 80),
        ("Wed, 21 Oct 2015 07:00:00 GMT", 0),
        ("31536000", 86_400),
        ("9" * 400, 86_400),
        ("Wed, 21 Oct 2099 07:28:00 GMT", 86_400),
        ("", None),
        ("-5", None),
        ("soon", None),
        ("1e9", None),
        ("12.x", None),
        ("١٢", None),
        ("Wed, 99 Oct 2015 07:28:00 GMT", None),
        ("Wed, 21 Oct 99999999999 07:28:00 GMT", None),
    ],
)
def test_retry_after(value: str, expected: float | None) -> None:
    """Both forms are read, junk is nothing, and nobody sends us away for more than a day."""
    assert retry_after_seconds(value, NOW) == expected


def test_dates_without_a_zone_are_gmt() -> None:
    """The asctime form does not depend on where we run."""
    assert http_date_ts("Wed Oct 21 07:28:00 2015") == NOW + 80


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"cache-control": "max-age=600"}, 600),
        ({"cache-control": 'public, MAX-AGE="600"'}, 600),
        ({"cache-control": "max-age=600", "age": "100"}, 500),
        ({"cache-control": "max-age=600", "age": "900"}, 0),
        ({"cache-control": "max-age=600, s-maxage=60"}, 60),
        ({"cache-control": "max-age=600, max-age=1"}, 600),
        ({"cache-control": "no-cache, max-age=600"}, 0),
        ({"cache-control": "no-store"}, 0),
        ({"cache-control": "private"}, None),
        ({"cache-control": "max-age=-1", "expires": DATE}, 80),
        ({"cache-control": "max-age=" + "9" * 300}, 366 * 86_400),
        ({"expires": DATE}, 80),
        ({"expires": DATE, "date": "Wed, 21 Oct 2015 07:27:00 GMT"}, 60),
        ({"expires": DATE, "date": "junk"}, 80),
        ({"expires": "0"}, 0),
        ({"expires": "Wed, 21 Oct 2015 07:00:00 GMT"}, 0),
        ({"cache-control": "max-age=10", "expires": DATE}, 10),
    ],
)
def test_cache_lifetime(headers: dict[str, str], expected: float | None) -> None:
    """Cache-Control speaks before Expires, and time spent in caches counts."""
    assert cache_lifetime_seconds(headers, NOW) == expected


@pytest.mark.parametrize(
    ("content_type", "kind", "encoding"),
    [
        ("text/html", "text/html", ""),
        ("Text/HTML; Charset=UTF-8", "text/html", "utf-8"),
        ('application/rss+xml; charset="windows-1251"', "application/rss+xml", "windows-1251"),
        ("text/html;charset='iso-8859-1'", "text/html", "iso-8859-1"),
        ("text/html; boundary=x; charset = gbk; q=1", "text/html", "gbk"),
        ("text/html; charset=", "text/html", ""),
        ("text/html; charset", "text/html", ""),
        ("text/html; notcharset=x", "text/html", ""),
        ("text/html, text/html", "text/html", ""),
        ("html", "", ""),
        ("", "", ""),
    ],
)
def test_content_type(content_type: str, kind: str, encoding: str) -> None:
    """Type and charset are read from what servers really send."""
    assert (media_type(content_type), charset(content_type)) == (kind, encoding)
