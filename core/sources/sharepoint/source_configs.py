"""What a person may write of a SharePoint source in a domain.json: a library, a list, the pages of a site.

Values are checked here, so that what the sources get has one form: no slash at the end, nothing percent-encoded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any
from unicodedata import category
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, AliasChoices, Field

from core.sources.domain_schema import Slug, SourceConfig, slug
from core.urls.forbidden_addresses import AllowList

MOST_URL_CHARS = 2_000
MOST_NAME_CHARS = 255
_LOOPBACK = AllowList.parse(("127.0.0.0/8", "::1", "localhost"))


def _site_url(text: str) -> str:
    """Return the address of a site without a slash at its end; raise ValueError, a sentence without the value."""
    url = text.strip().rstrip("/")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError("is not a URL; write https://COMPANY.sharepoint.com/sites/NAME") from None
    if parts.scheme not in ("https", "http") or not host:
        raise ValueError("is not a URL; write https://COMPANY.sharepoint.com/sites/NAME")
    if parts.username is not None or parts.password is not None:
        raise ValueError("holds a user name or password; Freshet keeps no secrets in URLs")
    if parts.query or parts.fragment or parts.path.lower().endswith(".aspx"):
        raise ValueError("is the address of a page; give that of the site, https://COMPANY.sharepoint.com/sites/NAME")
    return url


def _url_part(text: str) -> str:
    """Return the path of a library below its site, as it is written there; raise ValueError, a sentence."""
    if "://" in text:
        raise ValueError("is a whole URL; give only the path behind site_url, as /Shared Documents")
    decoded = unquote(text.strip()).rstrip("/")
    path = decoded if not decoded or decoded.startswith("/") else f"/{decoded}"
    names = path.split("/")[1:]
    if not names or path.lower().endswith(".aspx"):
        raise ValueError("names no library; give its path, as /Shared Documents")
    if {"", ".", ".."} & set(names) or _has_control(path) or set(path) & set('\\?"*:<>|'):
        raise ValueError("is not the path of a library; write it as in the browser's address, /Shared Documents")
    return path


def _list_name(text: str) -> str:
    """Return the title of a list; raise ValueError, a sentence."""
    name = text.strip()
    if "://" in name or name.startswith("/"):
        raise ValueError("is an address; give the title of the list as SharePoint shows it, as Project Tasks")
    if not name or _has_control(name):
        raise ValueError("is empty or no title; give the title of the list as SharePoint shows it, as Project Tasks")
    return name


def _plain(text: str) -> str:
    if _has_control(text):
        raise ValueError("holds a line break or another control character")
    return text.strip()


def _has_control(text: str) -> bool:
    return any(category(char) == "Cc" for char in text)


SiteUrl = Annotated[str, Field(max_length=MOST_URL_CHARS), AfterValidator(_site_url)]
UrlPart = Annotated[str, Field(max_length=MOST_URL_CHARS), AfterValidator(_url_part)]
ListName = Annotated[str, Field(max_length=MOST_NAME_CHARS), AfterValidator(_list_name)]
PlainText = Annotated[str, Field(max_length=MOST_URL_CHARS), AfterValidator(_plain)]


class SharePointConfig(SourceConfig):
    """What all three have."""

    location_field = "site_url"

    id: Slug | None = Field(
        default=None, validation_alias=AliasChoices("id", "source_id"), serialization_alias="source_id"
    )
    site_url: SiteUrl
    """The site, without a slash at the end."""
    filter: PlainText = ""
    """OData; empty: everything."""

    @classmethod
    def location(cls, config: Mapping[str, Any]) -> str:
        name = str(config.get("sharepoint_url_part", "") or f"/{config.get('list_name', '')}")
        return f"{config.get('site_url', '')}{name}"

    def title(self) -> str:
        return self.location(self.config())

    def derived_id(self) -> str:
        return slug(self.title().removeprefix(self.site_url))

    def refusal(self, allowed_hosts: Collection[str]) -> str:
        parts = urlsplit(self.site_url)
        host, port = parts.hostname or "", parts.port or 80
        if parts.scheme == "https" or any(
            one.permits(host, port) for one in (_LOOPBACK, AllowList.parse(allowed_hosts))
        ):
            return ""
        return "site_url: begins with https://; http is only for hosts in FETCH_ALLOWED_HOSTS, since it carries a token"


class FileSourceConfig(SharePointConfig):
    """A document library."""

    sharepoint_url_part: UrlPart
    """Its path below the site: `/Shared Documents`."""
    drive_id: PlainText | None = None
    """Its drive in Microsoft Graph: then the library is listed only if Graph tells of a change."""


class ListSourceConfig(SharePointConfig):
    """A list."""

    list_name: ListName
    """Its title."""


class SitePageSourceConfig(SharePointConfig):
    """The pages of a site."""

    sharepoint_url_part: UrlPart = "/SitePages"
