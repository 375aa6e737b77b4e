"""Explain refusals of SharePoint, and what a person can do about them."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from core.sources.sharepoint.odata import origin_of
from core.sources.sharepoint.remote_items import SharePointUnavailable

_LISTING_ADVICE = {
    400: "Check the filter of the source: it must be OData, with internal names of columns.",
    401: "The token is not accepted: renew SHAREPOINT_ACCESS_TOKEN, or check the app registration and its certificate.",
    403: "Give the app registration the right to read this site (Sites.Read.All, or Sites.Selected with this site).",
    404: "Check site_url, and sharepoint_url_part (the path in the address of the library) or list_name (its title).",
}
_DOWNLOAD_ADVICE = {
    401: "The token is not accepted.",
    403: "The app registration may not read this file.",
    404: "It was removed since it was listed; the next crawl finds out.",
    423: "Somebody has locked it; the next crawl tries again.",
}


class RequestRefused(Exception):
    """The server answered that it will not do this; trying again would not help."""

    def __init__(self, status: int, code: str, message: str) -> None:
        sentence = f"SharePoint answers {status}" + (f": {message.strip()}" if message.strip() else "")
        super().__init__(sentence if sentence.endswith((".", "!", "?", "…")) else f"{sentence}.")
        self.status = status
        self.code = code
        self.message = message


def is_over_threshold(code: str) -> bool:
    """Return whether it is the refusal to filter a list of more than 5,000 items by a column without an index."""
    return "-2147024860" in code or "SPQueryThrottled" in code


def listing_advice(refused: RequestRefused, what: str, site_url: str) -> str:
    if is_over_threshold(refused.code):
        advice = "Its filter is about a column without an index, and there are more than 5,000 items: add an index."
    else:
        advice = _LISTING_ADVICE.get(refused.status, "The next crawl tries again.")
    return f"{what!r} of {site_url} cannot be listed. {refused} {advice}"


def download_advice(refused: RequestRefused) -> str:
    return f"{refused} {_DOWNLOAD_ADVICE.get(refused.status, '')}".strip()


def check_site_url(site_url: str) -> str:
    """Return the address of a site as it is asked; `SharePointUnavailable` if it is none."""
    try:
        parts = urlsplit(site_url.strip())
        is_site = parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
        is_site = is_site and (parts.port is None or parts.port > 0) and not parts.query and not parts.fragment
    except ValueError:
        is_site = False
    if not is_site:
        raise SharePointUnavailable(
            f"site_url {site_url[:200]!r} is not the address of a site; write https://contoso.sharepoint.com/sites/MyProject."
        )
    return origin_of(site_url.strip()) + quote(parts.path.rstrip("/"), safe="/%")
