"""Open an `ItemEmbedder` with all it needs, in any process: an embed job, or a crawl that embeds what it has read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from core.keys import Keys
from core.search.io import multilingual_embedder
from core.search.io.chunk_store import ChunkStore
from core.search.io.embedders import open_embedder
from core.search.io.item_embedder import ItemEmbedder
from core.search.io.local_embedder import LocalEmbedder
from core.settings import Settings
from core.store import connect
from core.store.clock import ServerClock
from core.store.leases import Leases

_kept: dict[tuple[bool, bool], LocalEmbedder] = {}
"""By what the settings and the installed packages say of other languages."""


@asynccontextmanager
async def open_item_embedder(
    settings: Settings,
    client: connect.Client,
    keys: Keys,
    leases: Leases,
    clock: ServerClock,
    report_progress: Callable[[int], object] = lambda _: None,
) -> AsyncIterator[ItemEmbedder]:
    """Yield a run that embeds with the embedder of the settings; raises SettingsError. The leases are kept alive."""
    raw = connect.open_raw(settings)
    try:
        # The model stays loaded from run to run; a connection belongs to the loop it was made in.
        kind = (settings.search_across_languages, multilingual_embedder.is_installed())
        embedder = _kept[kind] if settings.embedder == "local" and kind in _kept else open_embedder(settings)
        if isinstance(embedder, LocalEmbedder):
            _kept[kind] = embedder
        try:
            yield ItemEmbedder(client, keys, leases, ChunkStore(client, raw, keys), embedder, clock, report_progress)
        finally:
            if embedder not in _kept.values():
                await embedder.close()
    finally:
        await raw.aclose()
