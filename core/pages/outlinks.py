"""Extract the links of a page that a crawl may follow.

Cheap, because most links are navigation and repeat themselves: fragments and foreign schemes are dropped before
anything is parsed, and each spelling of a target is cleaned once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from core.pages.images import Attributes
from core.pages.metadata import PageMetadata
from core.urls.normalise import MAX_URL_CHARS

MAX_LINKS = 2_000
"""More than that is a dump of links; a sitemap is the place for them."""
_MAX_HREF_CHARS = 2 * MAX_URL_CHARS
# A scheme that is not ours: `mailto:`, `javascript:`, `tel:`, `data:`, whatever it is.
_FOREIGN = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def collect_outlinks(anchors: Iterable[Attributes], metadata: PageMetadata) -> tuple[str, ...]:
    """Return the public http(s) targets, each once and in order; none of a page or link marked `nofollow`."""
    if "nofollow" in metadata.robots:
        return ()
    links: dict[str, None] = {}
    seen: set[str] = set()
    for attributes in anchors:
        address = (attributes.get("href") or "").partition("#")[0].strip()
        if not address or address in seen or "nofollow" in (attributes.get("rel") or "").lower().split():
            continue
        seen.add(address)
        url = "" if len(address) > _MAX_HREF_CHARS or _FOREIGN.match(address) else metadata.absolute(address)
        if url:
            links[url] = None
            if len(links) >= MAX_LINKS:
                break
    return tuple(links)
