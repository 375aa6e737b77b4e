"""The address of the bundled sample site, which `./scripts/up` writes to a file for every process of this folder.

The address is allowed though it is loopback, and needs no gap between requests: it is ours.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from core.runtime.address_file import AddressFile
from core.settings import Settings

ADDRESS = AddressFile("sample.url")


def hosts(settings: Settings) -> tuple[str, ...]:
    """Return `host:port` of the sample site, or nothing."""
    url = ADDRESS.read(settings)
    return (urlsplit(url).netloc,) if url else ()
