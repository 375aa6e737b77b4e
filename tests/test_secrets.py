"""Secrets are known by the name they travel under."""

from __future__ import annotations

import pytest

from core.urls import secrets


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no url, token=1", "no url, token=1"),
        ("see https://u:pw@h/x?a=1", "see https://…@h/x?a=1"),
        ("see https://u:p@ss@h/x", "see https://…@h/x"),
        ("see //u:pw@h/x", "see //…@h/x"),
        ("redis://:pa#s/s@h/0", "redis://…@h/0"),
        ("→ http://h/x?api_key=CANARY&b=2", "→ http://h/x?api_key=…&b=2"),
        ("http://h/?TOKEN=CANARY#f", "http://h/?TOKEN=…#f"),
        ("http://h/?a=1;sig=CANARY rest", "http://h/?a=1;sig=… rest"),
        ("http://h/?monkey=1", "http://h/?monkey=1"),
        ("http://h/?X-Amz-Signature=CANARY&X-Amz-Date=1", "http://h/?X-Amz-Signature=…&X-Amz-Date=…"),
        ("http://h/?sv=1&sig=CANARY&w=2 x", "http://h/?sv=…&sig=…&w=2 x"),
        ("http://h/?sv=1&w=2 x", "http://h/?sv=1&w=2 x"),
        ("http://h/#access_token=CANARY", "http://h/#access_token=…"),
        ("/relative?sig=CANARY", "/relative?sig=…"),
        ('<img src="http://h/a.png?w=1&amp;sig=CANARY">', '<img src="http://h/a.png?w=1&amp;sig=…">'),
        ("http://h/?u=http://g/?sig=CANARY", "http://h/?u=http://g/?sig=…"),
        ("http://h/?u=http%3A%2F%2Fg%2F%3Fsig%3DCANARY&w=2", "http://h/?u=http%3A%2F%2Fg%2F%3Fsig%3D…&w=2"),
        ("http://h/?u=http%3A%2F%2Fme%3ACANARY%40g%2F", "http://h/?u=http%3A%2F%2F…%40g%2F"),
    ],
)
def test_redacted(text: str, expected: str) -> None:
    """Passwords in URLs and secret parameters are hidden; the rest stays readable."""
    assert secrets.redact(text) == expected


@pytest.mark.parametrize(
    "piece", ["?a=", "?key=", "%3Fa", "%3Fa%3D", "%2F%2F:", "redis://", "http://a:", "//a:b", "&sig=?", "%25253F"]
)
def test_hostile_text_comes_to_an_end(piece: str) -> None:
    """The effort grows with the length of the text, nothing is nested too deeply, and what follows is still hidden."""
    assert "CANARY" not in secrets.redact(piece * 20_000 + " @ %40 http://h/?sig=CANARY")


def test_known_values_are_hidden_anywhere() -> None:
    """A secret of the settings does not show up even where no URL is."""
    assert secrets.redact("AUTH failed for hunter2", ("hunter2",)) == "AUTH failed for …"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h/x?api_key=CANARY", "http://h/x"),
        ("http://h/x?a=1&Api_Key=CANARY&b=%2B", "http://h/x?a=1&b=%2B"),
        ("http://h/x?apiKey=CANARY", "http://h/x"),
        ("http://h/x?acc%65ss_token=CANARY", "http://h/x"),
        ("http://h/x?a=1&amp;sig=CANARY", "http://h/x?a=1&amp"),
        # an Azure SAS as a whole, wherever it points to; on its own hosts also what is left of one
        ("http://h/x?sv=1&se=2026&sr=b&sp=r&spr=https&st=1&skoid=a&sig=CANARY&w=3", "http://h/x?w=3"),
        ("https://a.blob.core.windows.net/c/b?sv=1&se=2&snapshot=3", "https://a.blob.core.windows.net/c/b?snapshot=3"),
        ("http://h/x?sv=1&se=2", "http://h/x?sv=1&se=2"),
        # AWS, Google, CloudFront
        ("http://h/x?X-Amz-Algorithm=A&X-Amz-Date=1&X-Amz-Signature=CANARY&i=1", "http://h/x?i=1"),
        ("http://h/x?X-Goog-Signature=CANARY&X-Goog-Expires=3", "http://h/x"),
        ("http://h/x?Expires=1&Signature=CANARY&Key-Pair-Id=K&Policy=P&i=1", "http://h/x?i=1"),
        ("http://h/x?AWSAccessKeyId=A&Signature=CANARY&Expires=1", "http://h/x"),
        ("http://h/x?expires=1&policy=privacy", "http://h/x?expires=1&policy=privacy"),
        # what may be harmless is judged by its value
        ("http://h/x?token=ETH", "http://h/x?token=ETH"),
        ("http://h/x?token=usd-coin&key=chapter_two", "http://h/x?token=usd-coin&key=chapter_two"),
        ("http://h/x?token=0xdac17f958d2ee523a2206206994597c13d831ec7",) * 2,
        ("http://h/x?token=eyJhbGciOi.J9.abc&key=AIzaSyD0", "http://h/x"),
        ("http://h/x?page_token=CAUQ12aa", "http://h/x?page_token=CAUQ12aa"),
        ("http://h/x?monkey=A1b2C3d4&keyword=A1b2C3", "http://h/x?monkey=A1b2C3d4&keyword=A1b2C3"),
        # other separators, fragments, userinfo
        ("http://h/x?a=1;sig=CANARY;b=2", "http://h/x?a=1;b=2"),
        ("http://h/x#access_token=CANARY", "http://h/x"),
        ("http://h/x?a=1#access_token=CANARY&part=2", "http://h/x?a=1#part=2"),
        ("http://me:CAN@ARY@h/x", "http://h/x"),
        # a URL inside another
        ("http://h/i?url=https%3A%2F%2Fc%2Fa.jpg%3Fsig%3DCANARY&w=6", "http://h/i?url=https%3A%2F%2Fc%2Fa.jpg%3Fsig%3D&w=6"),
        ("http://h/i?url=https%253A%252F%252Fc%253Fsig%253DCANARY", "http://h/i?url=https%253A%252F%252Fc%253Fsig%253D"),
        ("http://h/i?url=https://c/a?sig=CANARY", "http://h/i?url=https://c/a?sig="),
        ("http://h/i?url=https%3A%2F%2Fme%3ACANARY%40c%2F", "http://h/i?url=https%3A%2F%2Fc%2F"),
        ("http://h/f/https%3A%2F%2Fc%2Fa%3Fsig%3DCANARY/b", "http://h/f/https%3A%2F%2Fc%2Fa%3Fsig%3D/b"),
        # byte for byte
        ("http://h/a//b:c@d",) * 2,
        ("http://h/@me/b?u=http://g/@me",) * 2,
        ("http://h/x",) * 2,
        ("http://h/x?",) * 2,
        ("http://h/x?a==&&b;c#d",) * 2,
        ("http://h/x?q=a%3Fb%3Dc%26d%3De",) * 2,
    ],
)  # fmt: skip
def test_links_lose_credentials(url: str, expected: str) -> None:
    """What can only be a credential is not stored, nor what only has a meaning beside it; all else stays."""
    assert secrets.without_credentials(url) == expected
    assert secrets.has_credentials(url) is (url != expected)
    assert secrets.without_credentials(expected) == expected


@pytest.mark.parametrize("name", ["PHPSESSID", "sessionid", "jsessionid", "sessid"])
def test_session_ids_are_secrets_unless_they_select_a_page(name: str) -> None:
    """A session that somebody's link carries is removed; the number of a talk stays."""
    assert secrets.without_credentials(f"https://e.org/a?{name}=4f9Xk2Lq81zz&b=1") == "https://e.org/a?b=1"
    assert secrets.without_credentials(f"https://e.org/a?{name}=12") == f"https://e.org/a?{name}=12"
