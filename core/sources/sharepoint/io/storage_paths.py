"""Paths of everything that belongs to SharePoint below PERSISTENT_STORAGE_PATH."""

from __future__ import annotations

from pathlib import Path

from core.settings import Settings
from core.sources.sharepoint.crawler_config import CRAWLER_HARDCODED_CONFIG as CFG
from core.sources.sharepoint.map_columns import MapRow
from core.sources.sharepoint.stored_source import StoredSource
from core.value_class import value_class


@value_class
class CrawlerStorage:
    root: Path

    @classmethod
    def of(cls, settings: Settings) -> CrawlerStorage:
        return cls(settings.persistent_storage_path)

    @property
    def crawler(self) -> Path:
        """What `file_relative_path` is relative to."""
        return self.root / CFG.PERSISTENT_STORAGE_PATH_CRAWLER_SUBFOLDER

    def source_folder(self, source: StoredSource) -> Path:
        """Return the folder of a source, with its three map files."""
        return self.crawler / source.domain_id / source.source_type.folder / source.source_id

    def map_file(self, source: StoredSource, row_class: type[MapRow]) -> Path:
        return self.source_folder(source) / row_class.file_name

    def domain_folder(self, domain_id: str) -> Path:
        return self.root / CFG.PERSISTENT_STORAGE_PATH_DOMAINS_SUBFOLDER / domain_id

    def files_metadata(self, domain_id: str) -> Path:
        return self.domain_folder(domain_id) / CFG.FILES_METADATA_JSON

    @property
    def crawl_reports(self) -> Path:
        reports = self.root / CFG.PERSISTENT_STORAGE_PATH_REPORTS_SUBFOLDER
        return reports / CFG.PERSISTENT_STORAGE_PATH_CRAWL_REPORTS_SUBFOLDER
