"""The day that a line names."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from core.pages.day_in_line import day_in_line

LINES = [
    ("Published 5 March 2021", "2021-03-05"),
    ("on Friday, March 5th, 2021 at 11:08 a.m.", "2021-03-05"),
    ("05-MAR-2021", "2021-03-05"),
    ("Mar. 5 2021", "2021-03-05"),
    ("5. März 2021, 13:15 Uhr", "2021-03-05"),
    ("1er mars 2021", "2021-03-01"),
    ("21 de abril del 2022 04:45", "2022-04-21"),
    ("5 maja 2021", "2021-05-05"),
    ("5 мая 2021 г.", "2021-05-05"),
    ("2021年3月5日 10:00", "2021-03-05"),
    ("2021년 3월 5일", "2021-03-05"),
    ("2021-03-05T10:00:00", "2021-03-05"),
    ("2021/3/5", "2021-03-05"),
    ("05.03.2021 | 06.03.2021", "2021-03-05"),
    ("5/3/2021", "2021-03-05"),
    ("3/25/2021", "2021-03-25"),
    ("31.02.2021, 5.3.2021", "2021-03-05"),
    ("5 mrt 2021", "2021-03-05"),
    ("5 / März / 2021", "2021-03-05"),
    ("Published:5 March 2021", "2021-03-05"),
    ("5th, March 2021", "2021-03-05"),
    ("March 2021", None),
    ("10:30 March 2021", None),
    ("Issue 12, March 2021", None),
    ("Part 3 - March 2021", None),
    ("Week 12 March 2021", None),
    ("5 Miller 2021", None),
    ("2021", None),
    ("120210305", None),
    ("5.3.1925", None),
    ("2021-13-32", None),
    ("", None),
]


@pytest.mark.parametrize(("line", "expected"), LINES, ids=[line for line, _ in LINES])
def test_day_in_line(line: str, expected: str | None) -> None:
    """The first day of a line that there is, in any order of day, month and year that names the year in full."""
    found = day_in_line(line)
    assert (None if found is None else datetime.fromtimestamp(found, UTC).date().isoformat()) == expected
