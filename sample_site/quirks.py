"""What goes wrong on real sites, once each, on purpose. Every slug here is odd in one way; all others are ordinary.

Ticks leave these articles alone, so that a demonstration looks the same after an hour.
"""

from __future__ import annotations

TWO_FEEDS = "lock-gates-reopen"
"""In the news feed and in the business feed, with different trackers: one article, two categories."""

REDIRECTED = "night-bus-trial"
REDIRECT_PATH = "/go/1042"
"""The feed links to a counter that redirects: one article, under the address where it ends."""

CONSENT_WALL = "reservoir-survey"
"""The page asks for consent and shows no word of the article; the feed has the whole text. The feed's must win."""

MISSING = "weekend-traffic-notice"
"""In the feed, but its page answers 404: a permanent failure, not tried again."""

UNAVAILABLE = "live-scores"
"""In the feed, but its page answers 503 with Retry-After: a failure that is tried again later."""

AMP = "cannery-loft-offices"
"""The feed links to the AMP page, which names the real one as canonical: one article, not two."""

RELATIVE = "ferry-fares"
"""The feed's link has no host: it counts from the feed's own address."""

SYNDICATED = ("river-festival-returns", "river-festival-wire")
"""The same text under two addresses in two sections: both are kept, one is marked as the duplicate."""

CHARSETS = {"lettre-de-vernay": "iso-8859-1", "pismo-iz-zarechya": "windows-1251"}
"""Pages that are not UTF-8. The first says so in its HTTP header, the second only in its <meta>."""

CHARSET_IN_HEADER = frozenset({"lettre-de-vernay"})

WITHOUT_PAGE = frozenset({MISSING, UNAVAILABLE})
"""Only feeds speak of these; home page and sitemap do not."""

ODD = frozenset(
    {TWO_FEEDS, REDIRECTED, CONSENT_WALL, AMP, RELATIVE, *WITHOUT_PAGE, *SYNDICATED, *CHARSETS},
)
