"""Is it them, or is it us?"""

from __future__ import annotations

import pytest

from core.network import NetworkHealth


@pytest.mark.parametrize(
    ("name", "lost", "reached", "down"),
    [
        ("nothing tried", 0, 0, False),
        ("a few hosts are no evidence", 4, 0, False),
        ("five of five", 5, 0, True),
        ("eight of ten is their trouble", 8, 2, False),
        ("nine of ten is ours", 9, 1, True),
    ],
)
def test_down_needs_many_hosts_and_nearly_all_of_them(name: str, lost: int, reached: int, down: bool) -> None:
    """At least five hosts and more than four in five without an answer."""
    health = NetworkHealth()
    for n in range(lost + reached):
        health.record(f"h{n}", n >= lost)

    assert health.is_down is down


def test_last_word_about_a_host_counts() -> None:
    """A network that came back is up again."""
    health = NetworkHealth()
    for reached in (False, True):
        for n in range(6):
            health.record(f"h{n}", reached)

    assert not health.is_down
