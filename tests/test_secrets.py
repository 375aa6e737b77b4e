"""Secrets are known by the name they travel under."""

from __future__ import annotations

import pytest

from core import secrets


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no url, token=1", "no url, token=1"),
        ("see https://u:pw@h/x?a=1", "see https://…@h/x?a=1"),
        ("→ http://h/x?api_key=CANARY&b=2", "→ http://h/x?api_key=…&b=2"),
        ("http://h/?TOKEN=CANARY#f", "http://h/?TOKEN=…#f"),
        ("http://h/?a=1;sig=CANARY rest", "http://h/?a=1;sig=… rest"),
        ("http://h/?monkey=1", "http://h/?monkey=1"),
    ],
)
def test_redacted(text: str, expected: str) -> None:
    """Passwords in URLs and secret parameters are hidden; the rest stays readable."""
    assert secrets.redacted(text) == expected


def test_known_values_are_hidden_anywhere() -> None:
    """A secret of the settings does not show up even where no URL is."""
    assert secrets.redacted("AUTH failed for hunter2", ("hunter2",)) == "AUTH failed for …"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h/x?api_key=CANARY", "http://h/x"),
        ("http://h/x?a=1&Api_Key=CANARY&b=%2B", "http://h/x?a=1&b=%2B"),
        ("http://h/x?sv=1&sig=CANARY", "http://h/x?sv=1"),
        ("http://h/x?token=ETH", "http://h/x?token=ETH"),
        ("http://h/x", "http://h/x"),
    ],
)
def test_links_lose_credentials(url: str, expected: str) -> None:
    """What can only be a credential does not enter a link set."""
    assert secrets.without_credentials(url) == expected
