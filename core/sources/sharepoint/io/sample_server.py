"""The address of the sample SharePoint, which `./scripts/up --sample-sharepoint` writes to a file of this folder.

It is allowed though it is loopback, and gets a word instead of a token: what the operator has for the real SharePoint
never goes there.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from core.runtime.address_file import AddressFile
from core.secret_text import SecretStr
from core.settings import Settings
from core.sources.sharepoint.odata import origin_of

ADDRESS = AddressFile("sample_sharepoint.url")
SAMPLE_TOKEN = SecretStr("sample")


def settings_for(settings: Settings, site_url: str) -> Settings:
    """Return the settings by which a site is asked: those of the operator, unless the site is the sample's."""
    sample = ADDRESS.read(settings)
    if not sample or origin_of(sample) != origin_of(site_url):
        return settings
    hosts = (*settings.fetch_allowed_hosts, urlsplit(sample).netloc)
    return settings.model_copy(update={"fetch_allowed_hosts": hosts, "sharepoint_access_token": SAMPLE_TOKEN})
