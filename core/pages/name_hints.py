"""What the class, id and role of an element say about its content, as bits."""

from __future__ import annotations

import re
from functools import lru_cache

_HINTS = {
    "navigation": r"(?:^|[\W_])(?:sub|top|main)?nav(?:igation|bar|box)?(?:[\W_]|$)|navigation|menu|bread-?crumbs?"
    r"|pagination|pager|skip-?link|toolbar|toc(?:[\W_]|$)",
    "footer": r"footer|colophon|copyright|disclaimer|legal",
    "related": r"related|recommend|read-?(?:more|next|also)|more-(?:on|from|stories|articles)|most-(?:read|popular)"
    r"|popular|trending|next-?(?:post|article|up)|prev|-stories|teaser|outbrain|taboola|promo|also-like|see-also"
    r"|linkbox|moreon|latest",
    "comments": r"comment(?!ary)|disqus|replies|respond|discussion|livefyre",
    "author": r"author|byline|bio(?:[\W_]|$)|writer|contributor|profile|user-?info|avatar",
    "about": r"meta|timestamp|dateline|(?:^|[\W_])(?:pub)?date|(?:^|[\W_])time|tags?(?:[\W_]|$)|categor|keywords"
    r"|topics?(?:[\W_]|$)|rating|views|reading-?time|kicker|section-?name|info(?:s|line|box)?(?:[\W_]|$)",
    "offer": r"newsletter|subscri|sign-?up|paywall|register|login|membership|donat|premium|offer",
    "consent": r"cookie|consent|gdpr|privacy|permission",
    "picture": r"caption|credit|figure|gallery|slide|carousel|lightbox|image|photo|picture|media|video|player|embed",
    "side": r"sidebar|aside|widget|rail|column-?(?:right|secondary)|secondary|complementary|banner|overlay|modal|popup"
    r"|dialog|tooltip",
    "lead": r"lead|intro|summary|excerpt|standfirst|dek(?:[\W_]|$)|subtitle|abstract|deck|stand-?first|sub-?headline"
    r"|description",
    "box": r"box|card|module|panel|list(?:ing)?(?:[\W_]|$)|item|button|btn|link|toggle|accordion|tabs?(?:[\W_]|$)"
    r"|expand|options|form",
    "other": r"share|sharing|social|follow|sociable|addthis|facebook|twitter|whatsapp|viral|(?:^|[\W_])ads?(?:[\W_]|$)"
    r"|advert|sponsor|dfp|criteo|paid|commercial|affiliate|hidden|(?:^|[\W_])hide|sr-only|screen-?reader|visually"
    r"|invisible|no-?print|print-only|collapsed|header|headline|title|masthead|heading|subhead|topper|quote|fact-?box"
    r"|note|reference|citation",
    "article": r"article|(?:post|story|body|main)-?_?(?:body|text|content|copy|entry)|entry-?content"
    r"|content-?_?-?body|paragraph|rich-?text|field-body|text(?:[\W_]|$)",
}
HINT_NAMES = tuple(_HINTS)
HINT_BITS = {name: 1 << number for number, name in enumerate(HINT_NAMES)}
NOT_ARTICLE = sum(HINT_BITS.values()) - HINT_BITS["article"]
_PATTERNS = tuple((HINT_BITS[name], re.compile(pattern, re.IGNORECASE)) for name, pattern in _HINTS.items())


@lru_cache(maxsize=20_000)
def name_hints(names: str) -> int:
    """Return the bits of all hints; remembered, because pages repeat their names and sites their pages."""
    return sum(bit for bit, pattern in _PATTERNS if pattern.search(names))
