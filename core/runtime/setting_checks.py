"""What a setting's value must not be, in sentences that say what would do. `core.settings` asks at the start."""

from __future__ import annotations

from urllib.parse import urlsplit

PROXY_SCHEMES = frozenset(("http", "https"))
_PROXY_FORM = "write http://host:port or http://user:password@host:port, with %-escapes for signs in the password"


def one_line(text: str) -> None:
    """ValueError if there is a control character in it: it would end a header, or a line of a log."""
    if any(0xD800 <= ord(char) < 0xE000 for char in text):
        raise ValueError("is not UTF-8; write it in plain letters")
    if any(ord(char) < 32 or 127 <= ord(char) < 160 for char in text):
        raise ValueError("has a line break or another control character in it; write it on one line")


def proxy(text: str) -> None:
    """ValueError if this is no address of an HTTP proxy."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError(f"cannot be read as an address; {_PROXY_FORM}") from None
    if parts.scheme not in PROXY_SCHEMES:
        raise ValueError(f"only HTTP proxies can be used; {_PROXY_FORM}")
    has_more = parts.path not in ("", "/") or parts.query or parts.fragment
    if not host or " " in text or port == 0 or has_more:
        raise ValueError(f"is no address of a proxy; {_PROXY_FORM}")
