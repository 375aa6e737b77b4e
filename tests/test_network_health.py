"""Is it them, or is it us?"""

from __future__ import annotations

import pytest

from core.net.network_health import NetworkHealth


def health(lost: int, reached: int, hosts: int = 100) -> NetworkHealth:
    seen = NetworkHealth()
    for n in range(lost + reached):
        seen.record(f"h{n % hosts}", n >= lost)
    return seen


@pytest.mark.parametrize(
    ("name", "lost", "reached", "down"),
    [
        ("nothing tried", 0, 0, False),
        ("a few hosts are no evidence", 4, 0, False),
        ("five of five", 5, 0, True),
        ("eight of ten is their trouble", 8, 2, False),
        ("nine of ten is ours", 9, 1, True),
        ("five dead hosts beside a live one with many feeds", 5, 20, False),
    ],
)
def test_down_needs_many_hosts_and_nearly_all_requests(name: str, lost: int, reached: int, down: bool) -> None:
    """At least five hosts and more than four in five requests without an answer."""
    assert health(lost, reached).is_down is down


def test_many_requests_to_few_hosts_are_no_evidence() -> None:
    """Two dead hosts with fifty feeds each are two dead hosts."""
    assert not health(100, 0, hosts=2).is_down


def test_one_answer_is_enough_to_go_on() -> None:
    """Dead hosts fail first; as soon as somebody answers, the run is not stopped for them."""
    assert health(9, 0).should_stop
    assert not health(9, 1).should_stop
