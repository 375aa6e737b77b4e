"""One SharePoint source of a domain: what it points at, as the steps of a crawl get it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from core.sources.sharepoint.local_paths import LocalPaths
from core.sources.sharepoint.source_types import SharePointType
from core.value_class import value_class


@value_class
class StoredSource:
    domain_id: str
    source_id: str
    """Its own name, without that of the domain."""
    source_type: SharePointType
    site_url: str
    """Without a slash at the end."""
    sharepoint_url_part: str = ""
    """For a library or pages: the path below the site, decoded."""
    list_name: str = ""
    """The title of a list."""
    filter: str = ""
    """OData; empty: everything."""
    drive_id: str = ""

    @classmethod
    def of(cls, domain_id: str, source_id: str, source_type: SharePointType, config: Mapping[str, Any]) -> Self:
        names = ("site_url", "sharepoint_url_part", "list_name", "filter", "drive_id")
        return cls(domain_id, source_id, source_type, *(str(config.get(name) or "") for name in names))

    @property
    def root_url(self) -> str:
        """The server-relative root of its library; of a list that of the site, since its own is not known here."""
        return unquote(urlsplit(self.site_url).path).rstrip("/") + self.sharepoint_url_part

    @property
    def paths(self) -> LocalPaths:
        return LocalPaths(self.domain_id, self.source_type, self.source_id, self.root_url, self.list_name)

    @property
    def shown(self) -> str:
        return f"{self.site_url}{self.sharepoint_url_part or f'/{self.list_name}'}"
