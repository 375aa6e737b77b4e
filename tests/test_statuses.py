"""The one table of what a status or a failure means, and the retries that follow from it."""

from __future__ import annotations

import pytest

from core import schedule
from core.errors import FailCode, FailDetail
from core.models import Failed, Fetched
from core.registry import outcomes, statuses
from core.registry.outcomes import Broken, Missing
from core.registry.record import Item
from core.registry.statuses import ErrorClass, Meaning

ITEM = Item("url_x", source="https://e.org/a", fetch_url="https://e.org/a", has_text=True)


@pytest.mark.parametrize(
    ("status", "meaning", "error_class"),
    [
        (200, Meaning.GOOD, ErrorClass.HARD),
        (203, Meaning.GOOD, ErrorClass.HARD),
        (204, Meaning.REFUSED, ErrorClass.SOFT),
        (304, Meaning.UNCHANGED, ErrorClass.SOFT),
        (400, Meaning.REFUSED, ErrorClass.HARD),
        (401, Meaning.CLOSED, ErrorClass.HARD),
        (403, Meaning.CLOSED, ErrorClass.HARD),
        (404, Meaning.MISSING, ErrorClass.HARD),
        (408, Meaning.LATER, ErrorClass.TEMPORARY),
        (410, Meaning.GONE, ErrorClass.HARD),
        (425, Meaning.LATER, ErrorClass.TEMPORARY),
        (429, Meaning.LATER, ErrorClass.TEMPORARY),
        (451, Meaning.CLOSED, ErrorClass.HARD),
        (500, Meaning.LATER, ErrorClass.SOFT),
        (503, Meaning.LATER, ErrorClass.TEMPORARY),
        (599, Meaning.LATER, ErrorClass.SOFT),
    ],
)
def test_status(status: int, meaning: Meaning, error_class: ErrorClass) -> None:
    """Every status has one meaning, and weighs the same in every feed's backoff."""
    found = statuses.of_status(status)

    assert (found.meaning, found.error_class) == (meaning, error_class)


TRANSIENT = [
    Failed(FailCode.TIMEOUT),
    Failed(FailCode.TIMEOUT, FailDetail.CONNECT),
    Failed(FailCode.HTTP, FailDetail.DNS),
    Failed(FailCode.HTTP, FailDetail.REFUSED),
    Failed(FailCode.HTTP, FailDetail.RESET),
    Failed(FailCode.HTTP, FailDetail.TRUNCATED),
    Failed(FailCode.PARSE, FailDetail.CRASH),
    *(Failed(FailCode.HTTP, FailDetail.STATUS, "", status) for status in (408, 425, 429, 500, 502, 503, 504, 599)),
]
PERMANENT = [
    Failed(FailCode.BAD_HTML),
    Failed(FailCode.EMPTY),
    Failed(FailCode.PARSE),
    Failed(FailCode.PARSE, FailDetail.CPU),
    Failed(FailCode.PARSE, FailDetail.MEMORY),
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
def test_transient_failures(failed: Failed) -> None:
    """The same request may work later."""
    assert statuses.is_transient(failed)


@pytest.mark.parametrize("failed", PERMANENT, ids=str)
def test_permanent_failures(failed: Failed) -> None:
    """What cannot get better is not tried again."""
    assert not statuses.is_transient(failed)


def test_link_is_tried_three_times_more() -> None:
    """After 10 minutes, an hour and six hours; then never."""
    assert [schedule.link_retry_seconds(tries) for tries in range(4)] == [600, 3600, 21600, None]


def test_item_backoff_doubles_up_to_a_day() -> None:
    """600 seconds at first, a day at most, also after a thousand failures."""
    assert [schedule.item_backoff_seconds(n, 600) for n in (1, 2, 3, 9, 1000)] == [600, 1200, 2400, 86_400, 86_400]


def test_retry_after_is_never_undercut() -> None:
    """A server that asks for an hour gets an hour; one that asks for less gets our own wait."""
    assert (schedule.retry_at(100, 600, 4000), schedule.retry_at(100, 600, 5)) == (4100, 700)


def test_one_row_changes_the_meaning_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 451 treated like 410, a page is gone for certain and so is a feed."""
    answer = Fetched("https://e.org/a", "https://e.org/a", 451, {}, b"")
    before = outcomes.of_answer(ITEM, answer, False, 0.0)
    monkeypatch.setitem(statuses._STATUSES, 451, statuses.of_status(410))
    after = outcomes.of_answer(ITEM, answer, False, 0.0)

    assert isinstance(before, Broken)
    assert isinstance(after, Missing)
    assert after.is_certain


def test_every_failure_detail_has_a_row() -> None:
    """A new detail cannot be forgotten; `status` and the empty one are answered by the number or the code."""
    assert set(FailDetail) - set(statuses._DETAILS) == {FailDetail.NONE, FailDetail.STATUS}
