"""Which embedder the settings ask for. What it is made of is loaded when it is first used."""

from __future__ import annotations

from core.search.chunk import CHUNKER_VERSION
from core.search.io.local_embedder import LocalEmbedder
from core.search.io.none import NoEmbedder
from core.search.io.openai_embedder import Endpoint, OpenAIEmbedder
from core.search.protocols import Embedder
from core.settings import Settings


def open_embedder(settings: Settings) -> Embedder:
    """The embedder of these settings; close it in the end. Raises SettingsError."""
    if settings.embedder == "none":
        return NoEmbedder()
    if settings.embedder == "openai":
        return OpenAIEmbedder(Endpoint.of(settings), CHUNKER_VERSION, settings.embed_batch, settings.embed_most_tokens)
    return LocalEmbedder(CHUNKER_VERSION)
