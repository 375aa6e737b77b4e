"""What a URL is to us: clean to fetch, normal to compare, shown to people.

Pure. One parser has the say on what a URL means (WHATWG, by ada), one list on where a domain begins (public suffixes).
`clean_url` is safe to fetch: it never reorders or re-encodes what it keeps. `normalise_url` is identity only and its
result is never fetched.
The policy, line by line, is in docs/urls.md.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import ip_address
from typing import NamedTuple

import ada_url
from publicsuffixlist import PublicSuffixList

from core.models import RejectedUrl
from core.urls.secrets import without_credentials
from core.urls.trackers import Trackers, tracker_matcher

NORMALISER_VERSION = 1
"""Raise it with any change of rule or tracker list: uids and item ids change (trap T45)."""

MAX_URL_CHARS = 2048
"""The limit of sitemaps.org for a location; what is longer is a trap or data in disguise."""

_SCHEMES = ("http://", "https://")
_DEFAULT_PORTS = {"http:": 80, "https:": 443}
# What WHATWG strips around a URL: C0 controls and space.
_BLANK = "".join(map(chr, range(0x21)))
# A `%` with or without two hex digits, and what RFC 3986 has no place for in a path or query but WHATWG lets stand.
_TO_NORMALISE = re.compile(r"%([0-9A-Fa-f]{2})?|[\[\]\\^`{|}]")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class UrlParts(NamedTuple):
    """An http(s) URL in pieces, as WHATWG reads it."""

    scheme: str
    host: str
    """Lower case, ASCII, without trailing dot; an IPv6 address without its brackets."""
    port: int
    """The one that would be dialled, default or not."""
    path: str
    query: str


# ── reading ─────────────────────────────────────────────────────────────────────────────────────


def join_url(base: str, ref: str) -> str:
    """`ref` made absolute; what cannot be joined comes back as it was, so that `clean_url` can say why."""
    try:
        return str(ada_url.join_url(_scalar(base), _scalar(ref)))
    except ValueError:
        return ref


def serialise_url(url: str, base: str | None = None) -> str:
    """The URL as WHATWG serialises it, without fragment; empty if it cannot be read."""
    return _parse(url if base is None else join_url(base, url)).partition("#")[0]


@lru_cache(maxsize=2_048)
def split_url(url: str) -> UrlParts | None:
    """The pieces of an http(s) URL, or None for anything else."""
    href = _parse(url)
    if not href.startswith(_SCHEMES):
        return None
    scheme, authority, path, query = _split(href)
    host, port = host_and_port(authority.rpartition("@")[2])
    return UrlParts(scheme[:-1], host, port or _DEFAULT_PORTS[scheme], path, query)


def host_of(url: str) -> str:
    """The host of an http(s) URL, or an empty string."""
    found = split_url(url)
    return found.host if found else ""


def origin_of(url: str) -> str:
    """`scheme://host[:port]`, or an empty string if this is no http(s) URL."""
    found = split_url(url)
    if found is None:
        return ""
    host = f"[{found.host}]" if ":" in found.host else found.host
    port = "" if found.port == _DEFAULT_PORTS[f"{found.scheme}:"] else f":{found.port}"
    return f"{found.scheme}://{host}{port}"


def registrable_domain(host_or_url: str) -> str:
    """What one owner registered: `bbc.co.uk`, `someone.github.io`; an address or a bare name is its own domain."""
    return _registrable(host_of(host_or_url) if "//" in host_or_url else host_or_url)


def politeness_key(host: str, port: int) -> str:
    """Who shares politeness: a registrable domain; under a bare address each port is a server of its own."""
    domain = registrable_domain(host)
    is_name = "." in domain and ":" not in domain and not domain.replace(".", "").isdigit()
    return domain if is_name else f"{domain}:{port}"


# ── writing ─────────────────────────────────────────────────────────────────────────────────────


def clean_url(url: str, trackers: Trackers | None = None) -> str | RejectedUrl:
    """The URL to store and fetch: WHATWG form without trackers and fragment; or why there is none."""
    href = _parse(url)
    if not href:
        return RejectedUrl(url, "unparsable" if url.strip(_BLANK) else "empty")
    if not href.startswith(_SCHEMES):
        return RejectedUrl(url, "scheme")
    scheme, authority, path, query = _split(href)
    if "@" in authority:
        return RejectedUrl(url, "credentials")
    authority = _without_dot(authority)
    if not authority:
        return RejectedUrl(url, "no_host")
    if "xn--" in authority and not _is_idn(authority):
        return RejectedUrl(url, "unparsable")
    if query:
        query = _without_trackers(query, authority, trackers or tracker_matcher())
    cleaned = f"{scheme}//{authority}{path}?{query}" if query else f"{scheme}//{authority}{path}"
    return cleaned if len(cleaned) <= MAX_URL_CHARS else RejectedUrl(url, "too_long")


def public_url(url: str, trackers: Trackers | None = None) -> str | RejectedUrl:
    """What is stored of a link that somebody else wrote: clean, and without credentials; or why there is none."""
    cleaned = clean_url(url, trackers)
    return cleaned if isinstance(cleaned, RejectedUrl) else without_credentials(cleaned)


def normalise_url(url: str, trackers: Trackers | None = None) -> str:
    """The form that equal links share: public, query sorted by name, no trailing slash. Never fetch it.

    Raises ValueError for what `clean_url` rejects: such a URL has no identity, and may carry a password.
    """
    cleaned = public_url(url, trackers)
    if isinstance(cleaned, RejectedUrl):
        raise ValueError(f"a URL without identity: {cleaned.reason}")
    scheme, authority, path, query = _split(cleaned)
    path = _TO_NORMALISE.sub(_normal_char, path).rstrip("/") or "/"
    pairs = [pair for pair in _TO_NORMALISE.sub(_normal_char, query).split("&") if pair]
    # Sorted by name alone: the order of a repeated parameter can matter, so it stays.
    pairs.sort(key=lambda pair: pair.partition("=")[0])
    return f"{scheme}//{authority}{path}" + ("?" + "&".join(pairs) if pairs else "")


def display_url(url: str) -> str:
    """The URL for people: a punycode host in its own letters. Never parse or fetch it."""
    href = _parse(url)
    if "//xn--" not in href and ".xn--" not in href:
        return href or url
    scheme, _, authority, *rest = href.split("/", 3)
    host, colon, port = authority.partition(":")
    return "/".join((scheme, "", ada_url.idna.decode(host) + colon + port, *rest))


# ── inside ──────────────────────────────────────────────────────────────────────────────────────


def _parse(url: str) -> str:
    """The URL as WHATWG serialises it, or an empty string."""
    try:
        return str(ada_url.normalize_url(url))
    except ValueError:
        readable = _scalar(url)
        return "" if readable == url else _parse(readable)


def _scalar(text: str) -> str:
    """Lone surrogates become U+FFFD, as in a browser; other text is returned as it is."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _split(href: str) -> tuple[str, str, str, str]:
    """Scheme with colon, authority, path, query of a serialised http(s) URL; the fragment is left behind."""
    scheme, _, authority, rest = href.partition("#")[0].split("/", 3)
    path, _, query = rest.partition("?")
    return scheme, authority, "/" + path, query


def host_and_port(authority: str) -> tuple[str, int]:
    """Host without brackets and trailing dot, and the port it names or 0; of a serialised URL's authority."""
    if authority.startswith("["):
        host, _, port = authority[1:].partition("]")
        return host, int(port[1:] or 0)
    host, _, port = authority.partition(":")
    return host.removesuffix("."), int(port or 0)


def _without_dot(authority: str) -> str:
    """`example.com.` names the same host as `example.com`; two dots, or nothing but a dot, name none."""
    if not authority.endswith(".") and ".:" not in authority:
        return authority
    host, colon, port = authority.partition(":")
    host = host[:-1]
    return "" if not host or host.endswith(".") else host + colon + port


def _is_idn(authority: str) -> bool:
    """ada lets wrong punycode pass if all is ASCII; WHATWG and browsers do not. What it cannot decode it leaves."""
    decoded = ada_url.idna.decode(authority.partition(":")[0])
    return not any(label.startswith("xn--") for label in decoded.split("."))


def _without_trackers(query: str, authority: str, trackers: Trackers) -> str:
    domain = registrable_domain(authority)
    return "&".join(pair for pair in query.split("&") if not trackers.drops(pair.partition("=")[0], domain))


def _normal_char(match: re.Match[str]) -> str:
    """A stray `%` is written `%25`, else `%%34%31` would turn into `%41` and then into `A`."""
    text, digits = match[0], match[1]
    if text == "%":
        return "%25"
    if digits is None:
        return f"%{ord(text):02X}"
    char = chr(int(digits, 16))
    return char if char in _UNRESERVED else text.upper()


@lru_cache(maxsize=1)
def _public_suffixes() -> PublicSuffixList:
    return PublicSuffixList()  # with the private section: blogs on one platform have different owners


@lru_cache(maxsize=16_384)
def _registrable(text: str) -> str:
    bare_ipv6 = text.count(":") > 1 and not text.startswith("[")
    host = host_of(f"http://[{text}]" if bare_ipv6 else f"http://{text}") if text else ""
    return host if _is_address(host) else _public_suffixes().privatesuffix(host) or host


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
