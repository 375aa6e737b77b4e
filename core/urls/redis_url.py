"""Mask Redis URLs, find the passwords in them, and say what is wrong with them.

A password with a raw `#`, `/`, `?` or `@` cuts a URL at the wrong place, so the last `@` of the whole text counts.
"""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster")
HIDDEN = "…"
ENCODE = (
    "host and port cannot be told apart from the rest. In a user name or password `#`, `/`, `?`, `@`, `[` and `%` "
    "have to be percent-encoded: %23, %2F, %3F, %40, %5B, %25"
)
_HOSTS = re.compile(r"(?:[A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.%]+\])?(?::[0-9]*)?(?:,(?:[A-Za-z0-9._~-]+)(?::[0-9]*)?)*")
_PATH = re.compile(r"(?:/[A-Za-z0-9._~-]*)*")


def masked(url: str) -> str:
    """Return the URL as it may be shown: scheme, host, port and database, never user, password or options."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in SCHEMES:
        return HIDDEN
    # A good URL is cut by the rules; of a bad one only what follows the last `@` is certainly no password.
    end = len(rest) if problem(url) else len(urlsplit(url).netloc)
    shown = rest[rest.rfind("@", 0, end) + 1 :]
    if scheme == "unix":
        return f"{scheme}://{re.split('[?#]', shown)[0]}"
    hosts, slash, path = re.split("[?#]", shown)[0].partition("/")
    if not _HOSTS.fullmatch(hosts) or not _PATH.fullmatch(slash + path):
        return f"{scheme}://{HIDDEN}"
    if "@" not in rest and hosts.startswith(":"):
        return f"{scheme}://{HIDDEN}"  # no host: what follows the colon may be the beginning of a password
    return f"{scheme}://{hosts}{slash}{path}"


def passwords(url: str) -> set[str]:
    """Return every form of the password that a log line could quote: as written, decoded, and cut at a `#`."""
    rest = url.partition("://")[2]
    credentials, separator, _ = rest.rpartition("@")
    written = credentials.partition(":")[2] if separator else ""
    return {written, unquote(written), *re.findall(r"[?&]password=([^&#]*)", rest)} - {""}


def problem(url: str) -> str | None:
    """Return why this URL cannot be used, without quoting it; None if it can."""
    try:
        parts = urlsplit(url)
        port = parts.port if "+" not in parts.scheme else None  # several hosts
    except ValueError:
        return ENCODE
    if parts.scheme not in SCHEMES:
        return "it does not begin with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://"
    if parts.scheme == "unix":
        return None
    # Only a password that was cut puts an `@` behind the host, or leaves the host without one in front of it.
    is_cut = "#" in url or "@" in parts.path or ("@" in parts.query and "@" not in parts.netloc)
    if is_cut or "@" in parts.netloc.rpartition("@")[2] or port == 0:
        return ENCODE
    return None
