"""What a person may write of a web site.

Apart from the source itself: its models take pydantic, and a process that visits pages does without.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from core.models import RejectedUrl
from core.sources.domain_schema import GapSeconds, SourceConfig, UrlGlobs, slug
from core.urls import secrets
from core.urls.normalise import clean_url, display_url, origin_of
from core.urls.scope import RootUrl

MAX_DEPTH = 10
MAX_PAGES = 10_000


def _clean_url(url: str) -> str:
    cleaned = clean_url(url)
    if isinstance(cleaned, RejectedUrl):
        if cleaned.reason == "credentials":
            raise ValueError("holds a user name or password; Freshet keeps no secrets in URLs")
        raise ValueError(f"is not an http or https URL that can be read ({cleaned.reason.replace('_', ' ')})")
    if secrets.without_credentials(cleaned) != cleaned:
        raise ValueError("holds a secret in its query; Freshet keeps no secrets in URLs")
    return cleaned


class WebConfig(SourceConfig):
    """A web site, or a part of it."""

    location_field = "url"

    url: Annotated[str, AfterValidator(_clean_url)]
    scope: Literal["subpages", "host", "domain"] = "subpages"
    include: UrlGlobs = ()
    exclude: UrlGlobs = ()
    max_depth: int = Field(default=MAX_DEPTH, ge=0, le=1_000)
    max_pages: int = Field(default=MAX_PAGES, ge=1, le=10_000_000)
    sitemap: bool = True
    gap_seconds: GapSeconds | None = None
    """None takes the setting."""

    @classmethod
    def recognise(cls, word: str, web_url: str) -> dict[str, Any] | None:
        return {"url": word} if re.match(r"https?:", word, re.IGNORECASE) else None

    def derived_id(self) -> str:
        return slug(re.sub(r"^https?://(www\.)?", "", self.url.partition("?")[0]))

    def title(self) -> str:
        return display_url(self.url)

    def url_prefix(self) -> str:
        folder = RootUrl.parse(self.url).folder if self.scope == "subpages" else ""
        return display_url(origin_of(self.url) + folder).rstrip("/")
