"""Recognise block pages, which stand in front of the article: consent, login, a test for robots.

Careful rather than complete: a block page taken for an article is one bad article, an article taken for a block page is
lost. So a page must be short, and say a sentence or have an address that only block pages have.
"""

from __future__ import annotations

import re

from core.urls.normalise import split_url

MAX_CHARS = 1_500
"""No block page we know says more; a longer page is an article that mentions one."""
MAX_BANNER_CHARS = 700
"""The limit for sentences that an article may also carry in its cookie banner."""

_BLOCKING_HOST = re.compile(
    r"(?:consent|cmp|myprivacy|privacywall|login|signin|auth|sso|idp|accounts?)\.|(?:[^.]+\.)*guce\."
)
_LOGIN_PATH = re.compile(
    r"/(?:log-?in|sign-?in|users?/sign_in|accounts?/log-?in|wp-login\.php|consent|cookie-?wall|privacy-?wall|captcha"
    r"|gdpr-consent|privacygate|sso)(?:[/.]|$)",
    re.IGNORECASE,
)
_CHALLENGE_TITLE = re.compile(
    r"just a moment\W*$|attention required! \| cloudflare|access(?: to this page)? (?:has been )?denied|are you a robot"
    r"|are you a human|pardon our interruption|robot check|human verification|bot verification|ddos-guard|captcha"
    r"|one moment, please|checking your browser|client challenge|security (?:check|verification)"
    r"|verify(?:ing)? you are human|please wait\W*$|request (?:blocked|rejected|unsuccessful)"
    r"|un momento\W*$|einen moment\W*$|un instant\W*$",
    re.IGNORECASE,
)
_CHALLENGE_TEXT = re.compile(
    r"enable javascript and cookies to continue|checking (?:if the site connection is secure|your browser before)"
    r"|verify(?:ing)? (?:that )?you(?:'re| are)(?: a)? (?:not a )?(?:human|robot)|unusual traffic from your"
    r"|complete the security check to access|performing security verification|needs to review the security of your"
    r"|press (?:&|and) hold to confirm|why have i been blocked|please enable (?:js|javascript|cookies) and"
    r"|incapsula incident id|reference #[0-9a-f]+\.[0-9a-f]+|your access to this (?:site|service) has been limited",
    re.IGNORECASE,
)
_CONSENT_TEXT = re.compile(
    r"(?:we|wir|nous|noi|nosotros)(?:,)? (?:and|und|et|e|y) (?:our|unsere|nos|i nostri|nuestros) (?:\d+ )?"
    r"(?:partners?|partner|partenaires|socios)|store and/or access information on a device"
    r"|before you continue to|bevor sie (?:zu|fortfahren)|avant de continuer|antes de continuar|prima di continuare"
    r"|mit werbung (?:weiterlesen|und tracking)|accepter et (?:continuer|fermer)|continuer sans accepter"
    r"|we value your privacy|we use cookies and similar|wir verwenden cookies und ähnliche",
    re.IGNORECASE,
)


def describe_block_page(url: str, title: str, text: str) -> str:
    """Return in a few words what stands in front of the article; empty if nothing does.

    Args:
        url: where the redirects ended.
        text: the main text, or all text of a page without one.
    """
    if len(text) > MAX_CHARS:
        return ""
    parts = split_url(url)
    if parts and (_BLOCKING_HOST.match(parts.host) or _LOGIN_PATH.match(parts.path)):
        return "a consent or login page"
    if _CHALLENGE_TITLE.search(title) or (len(text) <= MAX_BANNER_CHARS and _CHALLENGE_TEXT.search(text)):
        return "a test for robots"
    return "a consent wall" if len(text) <= MAX_BANNER_CHARS and _CONSENT_TEXT.search(text) else ""
