"""Clean, normalise and split URLs: clean to fetch, normal to compare, display for people.

One parser decides what a URL means (ada, after WHATWG), one list where a domain begins (public suffixes).
`clean_url` is safe to fetch: it never reorders or re-encodes what it keeps. `normalise_url` is identity only and its
result is never fetched.
The policy, line by line, is in docs/urls.md.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import ada_url

from core.models import RejectedUrl
from core.urls.forbidden_addresses import is_address
from core.urls.public_suffix import private_suffix
from core.urls.secrets import without_credentials
from core.urls.tracking_parameters import Trackers, tracker_matcher

NORMALISER_VERSION = 1
"""Raise it with any change of a rule or of the tracker list: uids and item ids change."""

MAX_URL_CHARS = 2048
"""The limit of sitemaps.org for a location; longer ones are spider traps or data in disguise."""

_SCHEMES = ("http://", "https://")
_DEFAULT_PORTS = {"http:": 80, "https:": 443}
# What WHATWG strips around a URL: C0 controls and space.
_BLANK = "".join(map(chr, range(0x21)))
# A `%` with or without two hex digits, and what RFC 3986 has no place for in a path or query but WHATWG lets stand.
_TO_NORMALISE = re.compile(r"%([0-9A-Fa-f]{2})?|[\[\]\\^`{|}]")
# Where nothing but a path, a query or a fragment follows, what follows has no say about host and port.
_PLAIN_ORIGIN = re.compile(r"https?://[a-z0-9.:-]+(?=[/?#])")
# A path of which WHATWG changes nothing: no escapes, no name that begins with a dot. Nearly every stored URL is so, and
# this look takes a tenth of the time of a parse; the part before the path is parsed once for each origin.
_PLAIN_URL = re.compile(r"(https?://[a-z0-9.:-]+)(?:/(?!\.)[A-Za-z0-9_~.-]*)+(?:\?[A-Za-z0-9_=&~.-]*)?")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class UrlParts(NamedTuple):
    """The parts of an http(s) URL, as WHATWG reads it."""

    scheme: str
    host: str
    """Lower case, ASCII, without trailing dot; an IPv6 address without its brackets."""
    port: int
    """The one that would be dialled, default or not."""
    path: str
    query: str


def join_url(base: str, ref: str) -> str:
    """Make `ref` absolute; what cannot be joined comes back unchanged, so that `clean_url` can say why."""
    try:
        return str(ada_url.join_url(_scalar(base), _scalar(ref)))
    except ValueError:
        return ref


def serialise_url(url: str, base: str | None = None) -> str:
    """Return the URL as WHATWG serialises it, without fragment; empty if it cannot be read."""
    return _parse(url if base is None else join_url(base, url)).partition("#")[0]


@lru_cache(maxsize=2_048)
def split_url(url: str) -> UrlParts | None:
    """Return the parts of an http(s) URL, or None for anything else."""
    href = _parse(url)
    if not href.startswith(_SCHEMES):
        return None
    scheme, authority, path, query = _split(href)
    host, port = host_and_port(authority.rpartition("@")[2])
    return UrlParts(scheme[:-1], host, port or _DEFAULT_PORTS[scheme], path, query)


def split_origin(url: str) -> UrlParts | None:
    """Return the parts of an http(s) URL up to its path; None for anything else.

    Much cheaper than `split_url` for the many pages of one site: what is left of a path is parsed once.
    """
    plain = _PLAIN_ORIGIN.match(url)
    return split_url(f"{plain[0]}/" if plain else url)


def host_of(url: str) -> str:
    """Return the host of an http(s) URL, or an empty string."""
    parts = split_origin(url)
    return parts.host if parts else ""


def origin_of(url: str) -> str:
    """Return `scheme://host[:port]`, or an empty string if this is not an http(s) URL."""
    parts = split_url(url)
    if parts is None:
        return ""
    host = f"[{parts.host}]" if ":" in parts.host else parts.host
    port = "" if parts.port == _DEFAULT_PORTS[f"{parts.scheme}:"] else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}"


def registrable_domain(host_or_url: str) -> str:
    """Return what one owner registered: `bbc.co.uk`, `someone.github.io`; addresses and bare names stay as they are."""
    return _registrable(host_of(host_or_url) if "//" in host_or_url else host_or_url)


def politeness_key(host: str, port: int) -> str:
    """Return what shares one rate limit: a registrable domain; of a bare address each port is a server of its own."""
    domain = registrable_domain(host)
    is_name = "." in domain and ":" not in domain and not domain.replace(".", "").isdigit()
    return domain if is_name else f"{domain}:{port}"


def clean_url(url: str, trackers: Trackers | None = None) -> str | RejectedUrl:
    """Return the URL to store and fetch, in WHATWG form without trackers and fragment; or why there is none."""
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
    # ada lets wrong punycode pass if all is ASCII, WHATWG and browsers do not. What it cannot decode it leaves.
    if "xn--" in authority and re.search(r"(?:^|\.)xn--", ada_url.idna.decode(authority.partition(":")[0])):
        return RejectedUrl(url, "unparsable")
    if query:
        trackers, domain = trackers or tracker_matcher(), registrable_domain(authority)
        query = "&".join(pair for pair in query.split("&") if not trackers.drops(pair.partition("=")[0], domain))
    cleaned = f"{scheme}//{authority}{path}?{query}" if query else f"{scheme}//{authority}{path}"
    return cleaned if len(cleaned) <= MAX_URL_CHARS else RejectedUrl(url, "too_long")


def public_url(url: str, trackers: Trackers | None = None) -> str | RejectedUrl:
    """Return what is stored of a link that someone else wrote: clean, without credentials; or why there is none."""
    cleaned = clean_url(url, trackers)
    return cleaned if isinstance(cleaned, RejectedUrl) else without_credentials(cleaned)


def normalise_url(url: str, trackers: Trackers | None = None) -> str:
    """Return the form that equal links share: public, query sorted by name, no trailing slash. Never fetch it.

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
    """Return the URL for people: a punycode host in its own letters. Never parse or fetch it."""
    href = _parse(url)
    if "//xn--" not in href and ".xn--" not in href:
        return href or url
    scheme, _, authority, *rest = href.split("/", 3)
    host, colon, port = authority.partition(":")
    return "/".join((scheme, "", ada_url.idna.decode(host) + colon + port, *rest))


@lru_cache(maxsize=2_048)  # the lane of a page, its guard and its host each ask within a moment
def _parse(url: str) -> str:
    """The URL as WHATWG serialises it, or an empty string."""
    plain = _PLAIN_URL.fullmatch(url)
    if plain and _is_serialised(f"{plain[1]}/"):
        return url
    return _serialised(url)


@lru_cache(maxsize=4_096)
def _is_serialised(origin: str) -> bool:
    return _serialised(origin) == origin


def _serialised(url: str) -> str:
    try:
        return str(ada_url.normalize_url(url))
    except ValueError:
        readable = _scalar(url)
        return "" if readable == url else _serialised(readable)


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


def _normal_char(match: re.Match[str]) -> str:
    """A stray `%` is written `%25`, else `%%34%31` would turn into `%41` and then into `A`."""
    text, digits = match[0], match[1]
    if text == "%":
        return "%25"
    if digits is None:
        return f"%{ord(text):02X}"
    char = chr(int(digits, 16))
    return char if char in _UNRESERVED else text.upper()


@lru_cache(maxsize=16_384)
def _registrable(text: str) -> str:
    bare_ipv6 = text.count(":") > 1 and not text.startswith("[")
    host = host_of(f"http://[{text}]" if bare_ipv6 else f"http://{text}") if text else ""
    return host if is_address(host) else private_suffix(host)
