"""Hints from the class, id and role of an element about its content, as bits.

All patterns are asked of a word once; from then on a node's names are a number, and a question is a bit test. Pages
repeat their names and sites their pages.
"""

from __future__ import annotations

import re
from functools import lru_cache

from core.pages.patterns_at_once import bits_at_once

# All in lower case: names are lowered first, as matching without regard to case takes several times as long.
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
# What a reader mode asks (`readability_score`, `readability_clean`).
_READER_MODE = {
    "unlikely": r"-ad-|ai2html|banner|breadcrumbs|combx|comment|community|cover-wrap|disqus|extra|footer|gdpr|header"
    r"|legends|menu|related|remark|replies|rss|shoutbox|sidebar|skyscraper|social|sponsor|supplemental|ad-break|agegate"
    r"|pagination|pager|popup|yom-remote",
    "still likely": r"and|article|body|column|content|main|mathjax|shadow",
    "good": r"article|body|content|entry|hentry|h-entry|main|page|pagination|post|text|blog|story",
    "bad": r"-ad-|hidden|^hid$|banner|combx|comment|com-|contact|footer|gdpr|masthead|media|meta|outbrain|promo"
    r"|related|scroll|share|shoutbox|sidebar|skyscraper|sponsor|shopping|tags|widget",
    "byline": r"byline|author|dateline|writtenby|p-author",
    "share": r"(?:\b|_)(?:share|sharedaddy)(?:\b|_)",
    "readers' comments": r"^(?:comments?(?:[-_](?:list|section|wrap\w*|area|content|thread|container|holder|block|box"
    r"|form|respond)|list|s)?|disqus_thread|dsq-comments|livefyre\w*|respond|commentlist|post-comments"
    r"|article-comments)$",
}
# The publisher's own name for the body of an article (`article_region`).
_BODY = (
    r"(?:entry|article|art|post|page|text)[-_]{0,2}(?:content|body|text)(?![-_]?(?:image|meta|head|foot))|articlebody"
    r"|articlecontent|articletext|body-text|post-?entry|story-?body|article__container|storytext|story-?content"
    r"|rich-?text|field--?name-body|field-body|wysiwyg|postarea|post_inner_wrapper|bodycopy"
)
PATTERNS = {**_HINTS, **_READER_MODE, "body": _BODY}
BITS = {name: 1 << number for number, name in enumerate(PATTERNS)}
# For alternatives that have all their letters in groups: one of these is in all that they match.
_NEEDLES = {
    "article": ("body", "text", "content", "copy", "entry"),
    "share": ("share",),
    "readers' comments": ("comment", "disqus_thread", "livefyre", "respond"),
    "body": ("content", "body", "text"),
}
# 3 µs a word; to search for one pattern after the other takes 22 µs, and a page has 130 words not seen before.
_word_bits = lru_cache(maxsize=20_000)(
    bits_at_once(
        {BITS[name]: pattern for name, pattern in PATTERNS.items()},
        {BITS[name]: needles for name, needles in _NEEDLES.items()},
    )
)
# `post-83417` and `post-83418` say the same.
_NUMBER = re.compile(r"[0-9]{2,}")

HINT_NAMES = tuple(_HINTS)
HINT_BITS = {name: BITS[name] for name in HINT_NAMES}
NOT_ARTICLE = sum(HINT_BITS.values()) - HINT_BITS["article"]
UNLIKELY, STILL_LIKELY = BITS["unlikely"], BITS["still likely"]
GOOD, BAD = BITS["good"], BITS["bad"]
BYLINE, SHARE, COMMENTS, BODY = (BITS[name] for name in ("byline", "share", "readers' comments", "body"))


@lru_cache(maxsize=20_000)
def name_bits(names: str) -> int:
    """Return what is true of any word of a class, an id or a role."""
    bits = 0
    for word in _NUMBER.sub("0", names.lower()).split():
        bits |= _word_bits(word)
    return bits


def name_weight(bits: int) -> int:
    """Return whether a name sounds like an article (25) or like anything else (-25); 0 for neither and for both."""
    return (25 if bits & GOOD else 0) - (25 if bits & BAD else 0)
