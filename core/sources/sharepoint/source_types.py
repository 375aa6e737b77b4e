"""The three types of SharePoint sources: libraries, lists and site pages."""

from __future__ import annotations

from enum import StrEnum

from core.sources.sharepoint.crawler_config import CRAWLER_HARDCODED_CONFIG as CFG


class SharePointType(StrEnum):
    """A type by its name in a domain.json."""

    FILES = "file_sources"
    LISTS = "list_sources"
    SITE_PAGES = "sitepage_sources"

    @property
    def scope(self) -> str:
        """Its name as the scope of a crawl."""
        return _SCOPES[self]

    @property
    def folder(self) -> str:
        """The folder of its sources below that of their domain."""
        return _FOLDERS[self]

    @property
    def download_folder(self) -> str:
        """Where the download step puts what it fetches: files are embedded as they are, others are processed first."""
        is_embedded_as_it_is = self is SharePointType.FILES
        originals, embedded = (
            CFG.PERSISTENT_STORAGE_PATH_ORIGINALS_SUBFOLDER,
            CFG.PERSISTENT_STORAGE_PATH_EMBEDDED_SUBFOLDER,
        )
        return embedded if is_embedded_as_it_is else originals

    @property
    def subfolders(self) -> tuple[str, ...]:
        embedded, failed = CFG.PERSISTENT_STORAGE_PATH_EMBEDDED_SUBFOLDER, CFG.PERSISTENT_STORAGE_PATH_FAILED_SUBFOLDER
        return tuple(dict.fromkeys((self.download_folder, embedded, failed)))

    @property
    def is_processed(self) -> bool:
        """Whether the process step makes files of the originals."""
        return self is not SharePointType.FILES

    def is_embedded(self, file_type: str) -> bool:
        """Return whether files of this type are embedded. Rows and pages are, whatever they are called."""
        return self.is_processed or file_type in CFG.DEFAULT_FILETYPES_ACCEPTED_BY_VECTOR_STORES


_SCOPES = {
    SharePointType.FILES: "files",
    SharePointType.LISTS: "lists",
    SharePointType.SITE_PAGES: "sitepages",
}
_FOLDERS = {
    SharePointType.FILES: CFG.PERSISTENT_STORAGE_PATH_DOCUMENTS_FOLDER,
    SharePointType.LISTS: CFG.PERSISTENT_STORAGE_PATH_LISTS_FOLDER,
    SharePointType.SITE_PAGES: CFG.PERSISTENT_STORAGE_PATH_SITEPAGES_FOLDER,
}
