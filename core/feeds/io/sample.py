"""Where the bundled sample site runs, as `./scripts/up` wrote it down for every process of this folder.

Its address is allowed though it is loopback, and has no gap: it is ours.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from core.settings import Settings

URL_FILE = "sample.url"


def write_url(settings: Settings, url: str) -> None:
    """Announce the sample site."""
    (settings.persistent_storage_path / URL_FILE).write_text(url + "\n", encoding="utf-8")


def read_url(settings: Settings) -> str:
    """The sample site's address; empty when there is none."""
    path = settings.persistent_storage_path / URL_FILE
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""


def remove_url(settings: Settings) -> None:
    """The sample site is no more."""
    (settings.persistent_storage_path / URL_FILE).unlink(missing_ok=True)


def hosts(settings: Settings) -> tuple[str, ...]:
    """`host:port` of the sample site, or nothing."""
    url = read_url(settings)
    return (urlsplit(url).netloc,) if url else ()


def admitted(settings: Settings) -> Settings:
    """The settings with the sample site among the hosts that may have a private address."""
    return settings.model_copy(update={"fetch_allowed_hosts": (*settings.fetch_allowed_hosts, *hosts(settings))})
