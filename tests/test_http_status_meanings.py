"""The one table of what a status or a failure means, and the retries that follow from it."""

from __future__ import annotations

import pytest

from core import schedule
from core.errors import FailCode, FailDetail
from core.models import Failed, Fetched
from core.registry import http_status_meanings, outcomes
from core.registry.http_status_meanings import ErrorClass, ResponseKind
from core.registry.outcomes import Broken, Missing
from core.registry.record import Item

ITEM = Item("url_x", source="https://e.org/a", fetch_url="https://e.org/a", has_text=True)


@pytest.mark.parametrize(
    ("status", "kind", "error_class"),
    [
        (200, ResponseKind.OK, ErrorClass.HARD),
        (203, ResponseKind.OK, ErrorClass.HARD),
        (204, ResponseKind.PERMANENT, ErrorClass.SOFT),
        (304, ResponseKind.UNCHANGED, ErrorClass.SOFT),
        (400, ResponseKind.PERMANENT, ErrorClass.HARD),
        (401, ResponseKind.FORBIDDEN, ErrorClass.HARD),
        (403, ResponseKind.FORBIDDEN, ErrorClass.HARD),
        (404, ResponseKind.MISSING, ErrorClass.HARD),
        (408, ResponseKind.TRANSIENT, ErrorClass.TEMPORARY),
        (410, ResponseKind.GONE, ErrorClass.HARD),
        (425, ResponseKind.TRANSIENT, ErrorClass.TEMPORARY),
        (429, ResponseKind.TRANSIENT, ErrorClass.TEMPORARY),
        (451, ResponseKind.FORBIDDEN, ErrorClass.HARD),
        (500, ResponseKind.TRANSIENT, ErrorClass.SOFT),
        (503, ResponseKind.TRANSIENT, ErrorClass.TEMPORARY),
        (599, ResponseKind.TRANSIENT, ErrorClass.SOFT),
    ],
)
def test_status(status: int, kind: ResponseKind, error_class: ErrorClass) -> None:
    """Every status has one kind, and weighs the same in every feed's backoff."""
    found = http_status_meanings.status(status)

    assert (found.kind, found.error_class) == (kind, error_class)


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
    assert http_status_meanings.is_transient(failed)


@pytest.mark.parametrize("failed", PERMANENT, ids=str)
def test_permanent_failures(failed: Failed) -> None:
    """What cannot get better is not tried again."""
    assert not http_status_meanings.is_transient(failed)


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
    before = outcomes.from_response(ITEM, answer, False, 0.0)
    monkeypatch.setitem(http_status_meanings._STATUSES, 451, http_status_meanings.status(410))
    after = outcomes.from_response(ITEM, answer, False, 0.0)

    assert isinstance(before, Broken)
    assert isinstance(after, Missing)
    assert after.is_certain


def test_every_failure_detail_has_a_row() -> None:
    """A new detail cannot be forgotten; `status` and the empty one are answered by the number or the code."""
    assert set(FailDetail) - set(http_status_meanings._DETAILS) == {FailDetail.NONE, FailDetail.STATUS}
