"""Every name of a folder or file that the crawler of SharePoint writes, and the limits of its map files."""

from __future__ import annotations

from core.value_class import value_class


@value_class
class CrawlerHardcodedConfig:
    """The names are public: people and programs find files by them."""

    PERSISTENT_STORAGE_PATH_DOMAINS_SUBFOLDER: str = "domains"
    PERSISTENT_STORAGE_PATH_CRAWLER_SUBFOLDER: str = "crawler"
    PERSISTENT_STORAGE_PATH_REPORTS_SUBFOLDER: str = "reports"
    PERSISTENT_STORAGE_PATH_CRAWL_REPORTS_SUBFOLDER: str = "crawls"
    PERSISTENT_STORAGE_PATH_DOCUMENTS_FOLDER: str = "01_files"
    PERSISTENT_STORAGE_PATH_LISTS_FOLDER: str = "02_lists"
    PERSISTENT_STORAGE_PATH_SITEPAGES_FOLDER: str = "03_sitepages"
    PERSISTENT_STORAGE_PATH_ORIGINALS_SUBFOLDER: str = "01_originals"
    PERSISTENT_STORAGE_PATH_EMBEDDED_SUBFOLDER: str = "02_embedded"
    PERSISTENT_STORAGE_PATH_FAILED_SUBFOLDER: str = "03_failed"
    DOMAIN_JSON: str = "domain.json"
    FILES_METADATA_JSON: str = "files_metadata.json"
    REPORT_JSON: str = "report.json"
    SHAREPOINT_MAP_CSV: str = "sharepoint_map.csv"
    FILE_MAP_CSV: str = "files_map.csv"
    VECTOR_STORE_MAP_CSV: str = "vectorstore_map.csv"
    APPEND_TO_MAP_FILES_EVERY_X_LINES: int = 50
    DEFAULT_FILETYPES_ACCEPTED_BY_VECTOR_STORES: tuple[str, ...] = (
        *("c", "cpp", "cs", "css", "doc", "docx", "go", "html", "java", "js", "json"),
        *("md", "pdf", "php", "pptx", "py", "rb", "sh", "tex", "ts", "txt"),
    )
    """File types that an OpenAI vector store takes; others are in `sharepoint_map.csv` only."""


CRAWLER_HARDCODED_CONFIG = CrawlerHardcodedConfig()
