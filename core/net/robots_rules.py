"""Parse a robots.txt and tell what it allows us.

Only the groups that apply to us reach the parser: it spends agents × rules, and a hostile file of 500 KB can
name ten thousand of each.
"""

from __future__ import annotations

import re
from enum import StrEnum

from protego import Protego

from core.urls.secrets import without_credentials

MAX_ROBOTS_BYTES = 500 * 1024
"""RFC 9309 §2.5 asks for at least 500 KiB; what comes after is not read."""
MAX_DELAY_SECONDS = 60.0
MAX_SITEMAPS = 500

_AGENT_LINE = re.compile(r"\s*user[- ]?agents?\s*[:\s]\s*(.*)", re.IGNORECASE)
_PRODUCT = re.compile(r"[a-z_-]+|\*", re.IGNORECASE)
# They belong to the whole file and end no group.
_NO_RULE = re.compile(r"\s*(#|$|site-?maps?\b|host\b)", re.IGNORECASE)
_SITEMAP_LINE = re.compile(r"[ \t]*site-?maps?[ \t]*:[ \t]*([^\s#]\S{0,2047})(?!\S)", re.IGNORECASE)


class RobotsPolicy(StrEnum):
    """What the response to robots.txt means (RFC 9309 §2.3.1)."""

    RULES = "rules"
    ALLOW = "allow"
    WAIT = "wait"


def policy_of_status(status: int) -> RobotsPolicy:
    """Return the policy: 2xx has rules; 5xx and 429 mean "not now"; anything else means that there are no rules."""
    if 200 <= status < 300:
        return RobotsPolicy.RULES
    return RobotsPolicy.WAIT if status >= 500 or status == 429 else RobotsPolicy.ALLOW


def product_name(user_agent: str) -> str:
    """Return the name by which robots.txt would address us: `freshet` of `Freshet/0.1 (…)`."""
    match = _PRODUCT.match(user_agent)
    return match[0].lower() if match else "*"


class RobotsRules:
    """The rules of one origin for one product."""

    __slots__ = ("_parsed", "_product", "delay_seconds", "size")

    def __init__(self, text: str, our_product: str) -> None:
        ours = groups_for(text, our_product)
        self._product = our_product
        self._parsed = Protego.parse(ours)
        self.delay_seconds = min(self._parsed.crawl_delay(our_product) or 0.0, MAX_DELAY_SECONDS)
        self.size = len(ours)

    def allows(self, url: str) -> bool:
        """Whether we may fetch this URL."""
        return bool(self._parsed.can_fetch(url, self._product))


def groups_for(text: str, our_product: str) -> str:
    """Return the lines that apply to this product or to everybody, in order."""
    kept: list[str] = []
    names: list[str] = []
    rules_began = True
    for line in text.removeprefix("\ufeff").splitlines():
        if _NO_RULE.match(line):
            continue
        agent = _AGENT_LINE.match(line)
        if agent is None:
            rules_began = True
            if names:
                kept.append(line)
            continue
        if rules_began:
            names, rules_began = [], False
            kept.append("")
        name = product_name(agent[1]) if agent[1] else ""
        if name in {our_product, "*"} and name not in names:
            names.append(name)
            kept.append(f"User-agent: {name}")
    return "\n".join(kept)


def without_credentials_in_sitemaps(text: str) -> str:
    """Return the robots.txt as it is stored: no credentials in its `Sitemap:` lines."""
    return "".join(_without_credentials(line) for line in text.splitlines(keepends=True))


def _without_credentials(line: str) -> str:
    named = _SITEMAP_LINE.match(line)
    return line[: named.start(1)] + without_credentials(named[1]) + line[named.end(1) :] if named else line


def sitemaps(text: str) -> tuple[str, ...]:
    """Return what the `Sitemap:` lines name, each once, as written; they apply to everybody, in any group."""
    named: dict[str, None] = {}
    for line in text.removeprefix("\ufeff").splitlines():
        match = _SITEMAP_LINE.match(line)
        if match and len(named) < MAX_SITEMAPS:
            named[match[1]] = None
    return tuple(named)
