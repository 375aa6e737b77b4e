"""Dates as publishers write them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.feeds.dates import parse_date


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # W3C-DTF and ISO 8601
        ("2003-12-31T10:14:55Z", "2003-12-31 10:14:55"),
        ("2003-12-31T10:14:55.75+02:00", "2003-12-31 08:14:55"),
        ("2003-12-31T10:14:55-0800", "2003-12-31 18:14:55"),
        ("2003-12-31 10:14:55 +0100", "2003-12-31 09:14:55"),
        ("2003-12-31 10:14", "2003-12-31 10:14:00"),
        ("2003-12", "2003-12-01 00:00:00"),
        ("2003", "2003-01-01 00:00:00"),
        ("20031231", "2003-12-31 00:00:00"),
        ("2003335", "2003-12-01 00:00:00"),
        ("031231", "2003-12-31 00:00:00"),
        ("2003-12-31T24:00:00Z", "2004-01-01 00:00:00"),
        # RFC 822, exact and sloppy
        ("Thu, 01 Jan 2004 19:48:21 GMT", "2004-01-01 19:48:21"),
        ("Thu, 1 Jan 04 19:48 EST", "2004-01-02 00:48:00"),
        ("Thursday, 01 January 2004 19:48:21 +0100", "2004-01-01 18:48:21"),
        ("Thu, Jan 01 2004 19:48:21 GMT", "2004-01-01 19:48:21"),
        ("Thu, 01 Jan 2004 19:48:21 GMT+01:00", "2004-01-01 18:48:21"),
        ("Thu, 01 Jan 2004 19:48:21 Etc/GMT", "2004-01-01 19:48:21"),
        ("01 Jan 2004", "2004-01-01 00:00:00"),
        ("Wed, 04 Sept 2024 10:00:00 XYZ", "2024-09-04 10:00:00"),
        ("Thu, 01 Jan 99 00:00:00 GMT", "1999-01-01 00:00:00"),
        # others
        ("Sun Jan 04 16:29:06 PST 2004", "2004-01-05 00:29:06"),
        ("Sun Jan 04 16:29:06 2004", "2004-01-04 16:29:06"),
        ("Fri, 2006/09/15 08:19:53 EDT", "2006-09-15 12:19:53"),
        ("2004년 05월 28일  01:31:15", "2004-05-27 16:31:15"),
        ("2004-05-25 오후 11:23:17", "2004-05-25 14:23:17"),
        ("Κυρ, 11 Ιούλ 2004 12:00:00 EST", "2004-07-11 17:00:00"),
        ("2004-július-13T9:15-05:00", "2004-07-13 14:15:00"),
    ],
)
def test_reads(text: str, expected: str) -> None:
    """Every form feedparser reads gives the same moment."""
    assert parse_date(text) == datetime.fromisoformat(f"{expected}+00:00").timestamp()


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "yesterday", "-0001-01-01", "0000-00-00", "0000-00-00T00:00:00Z", "99999-01-01", "Thu,"),
        *("Thu, 01 Jan 2004 25:00:00 GMT", "Mon, 32 Jan 2004 00:00:00 GMT", "1 Jan -5 00:00:00 GMT", "2" * 10_000),
        *("9999-12-31T23:59:59-23:00", "0001-01-01T00:00:00+23:00", "1 Jan 99999 00:00:00 GMT", "2025-00-00"),
    ],
)
def test_refuses(text: str) -> None:
    """Absurd dates are no dates, and raise nothing."""
    assert parse_date(text) is None


@given(st.text(max_size=60))
def test_never_raises(text: str) -> None:
    """Any text gives None or a moment that Python can show."""
    seconds = parse_date(text)
    assert seconds is None or datetime.fromtimestamp(seconds, UTC)


@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)))
def test_reads_back_what_python_writes(moment: datetime) -> None:
    """ISO 8601 and RFC 822 as Python writes them come back to the second."""
    moment = moment.replace(microsecond=0, tzinfo=UTC)
    assert parse_date(moment.isoformat()) == moment.timestamp()
    if moment.year >= 1000:
        assert parse_date(moment.strftime("%a, %d %b %Y %H:%M:%S +0000")) == moment.timestamp()
