"""Open a client of Qdrant: a server, or a folder in the client's local mode."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from core.errors import FreshetError, SettingsError
from core.settings import Settings

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient

MISSING = "Search in Qdrant needs {}. Install it with: ./scripts/setup qdrant"
NO_URL = "QDRANT_URL is not set: write the address of a Qdrant server, such as http://127.0.0.1:6333, or a folder."
TIMEOUT_SECONDS = 60


class QdrantUnreachable(FreshetError):
    """Qdrant does not answer, or refuses; the sentence says what to do."""


def is_local(settings: Settings) -> bool:
    """Return whether a folder is named and not a server."""
    return "://" not in settings.qdrant_url


@asynccontextmanager
async def open_client(settings: Settings) -> AsyncIterator[AsyncQdrantClient]:
    """Open a client; its errors become sentences. A folder is used by one process at a time."""
    if not settings.qdrant_url:
        raise SettingsError(NO_URL)
    # Here: the command line reads this file where the extra `qdrant` is not installed.
    from qdrant_client import AsyncQdrantClient
    from qdrant_client.http.exceptions import ApiException

    options: dict[str, Any] = {"path": settings.qdrant_url}
    if not is_local(settings):
        key = settings.qdrant_api_key.get_secret_value() if settings.qdrant_api_key else None
        # The version is not asked for: that would be a request before the first one, and a warning at best.
        options = {"url": settings.qdrant_url, "api_key": key, "timeout": TIMEOUT_SECONDS}
        options |= {"check_compatibility": False}
    try:
        client = AsyncQdrantClient(**options)
    except RuntimeError as error:  # another process has the folder
        raise QdrantUnreachable(f"{settings.qdrant_url} cannot be opened: {error}") from error
    try:
        yield client
    except ApiException as error:
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise QdrantUnreachable(f"Qdrant (QDRANT_URL) does not do what was asked. {why}") from error
    finally:
        await client.close()
