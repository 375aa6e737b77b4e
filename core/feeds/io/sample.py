"""The address of the bundled sample site, which `./scripts/up` writes to a file for every process of this folder.

The address is allowed though it is loopback, and needs no gap between requests: it is ours.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from core.settings import Settings

URL_FILE = "sample.url"


def write_url(settings: Settings, url: str) -> None:
    """Write the address of the sample site."""
    (settings.persistent_storage_path / URL_FILE).write_text(url + "\n", encoding="utf-8")


def read_url(settings: Settings) -> str:
    """Return the sample site's address; empty when there is none."""
    path = settings.persistent_storage_path / URL_FILE
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""


def remove_url(settings: Settings) -> None:
    """Remove the address: the sample site has stopped."""
    (settings.persistent_storage_path / URL_FILE).unlink(missing_ok=True)


def hosts(settings: Settings) -> tuple[str, ...]:
    """Return `host:port` of the sample site, or nothing."""
    url = read_url(settings)
    return (urlsplit(url).netloc,) if url else ()
