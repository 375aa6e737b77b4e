"""Unwrap an aggregator's redirect link into the publisher's own.

Only what the link itself carries is used. A link whose target only the aggregator's server knows is rejected as
`aggregator_opaque` rather than fetched. Sites are told apart by registrable domain, never by a substring of the URL;
pages that merely live on such a site (an article on msn.com) pass unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from core.models import RejectedUrl
from core.urls.normalise import UrlParts, registrable_domain, split_url

MAX_ROUNDS = 3
"""An alert on a search hit on a cached page needs three."""

# Google and Yahoo have one domain per country: google.de, google.co.uk, google.com.br.
_COUNTRY_SITE = re.compile(r"(google|yahoo)\.(?:com|cat|[a-z]{2}|com?\.[a-z]{2})")

Finder = Callable[[UrlParts], str]
"""Reads the target out of a link; an empty string if the link does not carry it."""


class UnwrapRule(NamedTuple):
    """Links whose `host/path?query` matches wholly (case ignored) are redirects; `find` knows where the target is."""

    where: re.Pattern[str]
    find: Finder


def unwrap(url: str) -> str | RejectedUrl:
    """Return the target of an aggregator's link, any other URL unchanged, or why there is no target."""
    current = url
    for _ in range(MAX_ROUNDS + 1):
        parts = split_url(current)
        if parts is None:
            # `clean_url` says what is wrong with a plain link.
            return url if current is url else RejectedUrl(url, "aggregator_target")
        rules = RULES.get(_site(parts.host), ())
        matching = (rule for rule in rules if rule.where.fullmatch(f"{parts.host}{parts.path}?{parts.query}"))
        rule = next(matching, None)
        if rule is None:
            return current
        current = rule.find(parts)
        if not current:
            return RejectedUrl(url, "aggregator_opaque")
    return RejectedUrl(url, "aggregator_depth")


@lru_cache(maxsize=16_384)
def _site(host: str) -> str:
    """Return the key into `RULES`: a registrable domain, or `google` and `yahoo` for all their countries."""
    domain = registrable_domain(host)
    country = _COUNTRY_SITE.fullmatch(domain)
    return country[1] if country else domain


# ── finders ─────────────────────────────────────────────────────────────────────────────────────


def _param(*names: str) -> Finder:
    """The first of these parameters that has a value, by its whole name: `menu=` is not `u=`."""

    def find(parts: UrlParts) -> str:
        pairs = [pair.partition("=") for pair in parts.query.split("&")]
        values = (value for name in names for key, _, value in pairs if key.lower() == name and value)
        return _decoded(next(values, ""))

    return find


def _in_path(pattern: str) -> Finder:
    """The group of this pattern in the path; the query is the aggregator's own."""
    compiled = re.compile(pattern, re.IGNORECASE)

    def find(parts: UrlParts) -> str:
        match = compiled.search(parts.path)
        return _decoded(match[1]) if match else ""

    return find


def _after_star(parts: UrlParts) -> str:
    """`us.rd.yahoo.com/…/*http://target?query`: everything after the star, query included."""
    match = re.search(r"/\*+(https?(?::|%3A).+)", parts.path, re.IGNORECASE)
    target = _decoded(match[1]) if match else ""
    return f"{target}?{parts.query}" if target and parts.query else target


def _amp(parts: UrlParts) -> str:
    """`/amp/s/host/path` and `/c/s/host/path`: `s` stands for https; the query is the publisher's."""
    match = re.fullmatch(r"/(?:amp|c|v)/(s/)?([^/]+\.[^/]+(?:/.*)?)", parts.path)
    if not match:
        return ""
    query = f"?{parts.query}" if parts.query else ""
    return f"{'https' if match[1] else 'http'}://{match[2]}{query}"


def _decoded(value: str) -> str:
    """A `+` stays: inside a URL it is a plus. A target encoded twice is decoded twice."""
    value = unquote(value)
    return unquote(value) if value.lower().startswith(("http%3a", "https%3a")) else value


# ── the table ───────────────────────────────────────────────────────────────────────────────────


# In a pattern `[^?]*` keeps to the path and `_WITH_URL` to the query, so that hostile links cost linear time.
_WITH_URL = r"\?(?:.*&)?(?:u|url)=https?(?::|%3a).*"


def _rule(where: str, find: Finder) -> UnwrapRule:
    return UnwrapRule(re.compile(where, re.IGNORECASE), find)


RULES: dict[str, tuple[UnwrapRule, ...]] = {
    "google": (
        # Ids since 2024 need two requests per link to decode, and bulk use is refused (RSSHub #17412).
        _rule(r"news\.google\.[^/]+/(?:[^?]*/)?(?:articles|read)/.*", _param("url")),
        _rule(r"feedproxy\.google\.com/~r/.*", _param("url")),
        # Search results, Alerts, old Google News; in results `q` is the (often empty) question, `url` the answer.
        _rule(r"[^/]+/(?:news/|m/)?url\?.*", _param("url", "q")),
        _rule(r"(?:www\.)?google\.[^/]+/amp/.*", _amp),
    ),
    "ampproject.org": (_rule(r"(?:[^/]+\.)?cdn\.ampproject\.org/[cv]/.*", _amp),),
    "feedburner.com": (_rule(r"feeds\d?\.feedburner\.com/~r/.*", _param("url")),),
    "bing.com": (_rule(r"[^/]+/news/apiclick\.aspx\?.*", _param("url")),),
    # Articles live on msn.com and Yahoo too: only a redirect that shows its target is one.
    "msn.com": (_rule(r"[^/]+/(?:[^?]*/)?(?:redirect|apiclick)(?:\.aspx)?" + _WITH_URL, _param("url", "u")),),
    "yahoo": (
        _rule(r"r\.search\.yahoo\.[^/]+/[^?]*/RU=.*", _in_path(r"/RU=([^/]+)")),
        _rule(r"(?:[^/]+\.)?rd\.yahoo\.[^/]+/(?:[^?]*/)?\*+https?(?::|%3a).*", _after_star),
        _rule(r"(?:[^/]+\.)?(?:rd|search|news)\.yahoo\.[^/]+/[^?]*" + _WITH_URL, _param("u", "url")),
    ),
    "facebook.com": (_rule(r"[^/]+/(?:l|sharer|sharer/sharer)\.php\?.*", _param("u")),),
    "instagram.com": (_rule(r"l\.instagram\.com/\?.*", _param("u")),),
}
