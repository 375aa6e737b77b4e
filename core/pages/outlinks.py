"""Where a page leads: the targets of its links, and whether it wants to be kept and followed.

Cheap, because navigation is most of a page's links and repeats itself: fragments and foreign schemes go before anything
is parsed, and each spelling of a target is cleaned once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from core.pages.image import Attributes
from core.pages.metadata import PageMetadata
from core.urls.normalise import MAX_URL_CHARS

MAX_LINKS = 2_000
"""What is longer is a dump of links; a sitemap is the place for them."""
_MAX_HREF_CHARS = 2 * MAX_URL_CHARS
# A scheme that is not ours: `mailto:`, `javascript:`, `tel:`, `data:`, whatever it is.
_FOREIGN = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_WORDS = re.compile(r"[\s,;]+")


def collect_outlinks(anchors: Iterable[Attributes], head: PageMetadata) -> tuple[str, ...]:
    """The public http(s) targets of these `<a>` and `<area>`, each once, in order, without those marked `nofollow`."""
    found: dict[str, None] = {}
    seen: set[str] = set()
    for attributes in anchors:
        address = (attributes.get("href") or "").partition("#")[0].strip()
        if not address or address in seen or "nofollow" in (attributes.get("rel") or "").lower().split():
            continue
        seen.add(address)
        url = "" if len(address) > _MAX_HREF_CHARS or _FOREIGN.match(address) else head.absolute(address)
        if url:
            found[url] = None
            if len(found) >= MAX_LINKS:
                break
    return tuple(found)


def is_noindex(head: PageMetadata) -> bool:
    """Does the page ask not to be kept?"""
    return not _robots(head).isdisjoint(("noindex", "none"))


def is_nofollow(head: PageMetadata) -> bool:
    """Does the page ask that none of its links be followed?"""
    return not _robots(head).isdisjoint(("nofollow", "none"))


def _robots(head: PageMetadata) -> set[str]:
    """What the page tells all robots. Several tags add up."""
    return {word for value in head.metas.get("robots", ()) for word in _WORDS.split(value.lower())}
