"""The address of the sample SharePoint, which `./scripts/up --sample-sharepoint` writes to a file of this folder.

It is allowed though it is loopback, and gets a word instead of a token: what the operator has for the real SharePoint
never goes there.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from core.secret_text import SecretStr
from core.settings import Settings
from core.sources.sharepoint.odata import origin_of

URL_FILE = "sample_sharepoint.url"
SAMPLE_TOKEN = SecretStr("sample")


def write_url(settings: Settings, url: str) -> None:
    """Write the address of the sample."""
    (settings.persistent_storage_path / URL_FILE).write_text(url + "\n", encoding="utf-8")


def read_url(settings: Settings) -> str:
    """Return the address of the sample; empty when there is none."""
    path = settings.persistent_storage_path / URL_FILE
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""


def remove_url(settings: Settings) -> None:
    """Remove the address: there is no sample any more."""
    (settings.persistent_storage_path / URL_FILE).unlink(missing_ok=True)


def settings_for(settings: Settings, site_url: str) -> Settings:
    """Return the settings by which a site is asked: those of the operator, unless the site is the sample's."""
    sample = read_url(settings)
    if not sample or origin_of(sample) != origin_of(site_url):
        return settings
    hosts = (*settings.fetch_allowed_hosts, urlsplit(sample).netloc)
    return settings.model_copy(update={"fetch_allowed_hosts": hosts, "sharepoint_access_token": SAMPLE_TOKEN})
