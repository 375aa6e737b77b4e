"""Decide whether a page's canonical link may be trusted.

A canonical link makes two articles one, so a wrong one loses articles: themes that name the home page on every story,
scripts that forget the id, login pages that name themselves. One that is wrongly distrusted only costs a duplicate.
"""

from __future__ import annotations

import re

from core.models import RejectedUrl
from core.urls.normalise import UrlParts, clean_url, registrable_domain, split_url
from core.urls.unwrap import unwrap

_LOGIN_OR_ERROR = re.compile(
    r"/(?:log-?in|sign-?in|sign-?up|sso|oauth2?|auth|register|consent|cookie-?consent|captcha|404|error)"
    r"(?:\.\w{1,5})?(?:/|$)",
    re.IGNORECASE,
)
# Parameters that carry an article's identity: `/story.php?id=7` and `/story.php` are not the same page.
_ID_PARAM = re.compile(r"(?:^|&)(?:[a-z_]*id|p|t|v|article|story|news|item|post|doc|node)=[^&]", re.IGNORECASE)
_MAX_DROPPED_SEGMENTS = 2
"""`/story/page/2` may name `/story`; dropping more of the path names a section."""


def trusted_canonical(canonical: str, url: str) -> str:
    """Return the canonical URL in clean form if it may stand for `url`, else an empty string.

    It must be of the same site (for an AMP cache: of the site it caches), and neither a home page, a login nor a
    section, unless `url` is one too.
    """
    cleaned = clean_url(canonical)
    if isinstance(cleaned, RejectedUrl):
        return ""
    target = unwrap(url)  # an address in an AMP cache carries the publisher's own
    named, own = split_url(cleaned), split_url(url if isinstance(target, RejectedUrl) else target)
    if named is None or own is None or registrable_domain(named.host) != registrable_domain(own.host):
        return ""
    return "" if _LOGIN_OR_ERROR.search(named.path) or _is_too_general(named, own) else cleaned


def is_login_or_error_url(url: str) -> bool:
    """Return whether the path names a login, a consent page or an error."""
    parts = split_url(url)
    return parts is not None and bool(_LOGIN_OR_ERROR.search(parts.path))


def _is_too_general(named: UrlParts, own: UrlParts) -> bool:
    named_path, own_path = named.path.rstrip("/"), own.path.rstrip("/")
    if named.query:
        return False
    if named_path == own_path:
        return bool(_ID_PARAM.search(own.query))
    if not named_path:
        return True
    dropped = own_path.removeprefix(f"{named_path}/")
    return dropped != own_path and dropped.count("/") + 1 > _MAX_DROPPED_SEGMENTS
