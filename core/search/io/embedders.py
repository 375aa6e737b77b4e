"""Select the embedder that the settings ask for; its libraries are loaded when it is first used."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from core.search.chunking import CHUNKER_VERSION, MOST_TOKENS, PREFIX_TOKENS, estimate_tokens
from core.search.io import multilingual_embedder
from core.search.io.local_embedder import LocalEmbedder
from core.search.io.multilingual_embedder import MultilingualEmbedder
from core.search.protocols import Embedder, Vector
from core.settings import Settings

log = logging.getLogger("embed")


def open_embedder(settings: Settings, *, is_brief: bool = False) -> Embedder:
    """Return the embedder of these settings; close it in the end. Raises SettingsError.

    `is_brief`: it is opened for one question, so a quick start counts for more than quick vectors.
    """
    if settings.embedder == "none":
        return NoEmbedder()
    if settings.embedder == "openai":
        # Imported here: the HTTP client takes as long to load as all the rest of a search.
        from core.search.io.openai_embedder import Endpoint, OpenAIEmbedder

        return OpenAIEmbedder(Endpoint.of(settings), CHUNKER_VERSION, settings.embed_batch, settings.embed_most_tokens)
    is_here = multilingual_embedder.is_installed()
    companion = MultilingualEmbedder(with_english=settings.search_across_languages) if is_here else None
    return LocalEmbedder(CHUNKER_VERSION, companion=companion, is_brief=is_brief)


class NoEmbedder:
    """Makes no vectors. Its chunks are as long as the local model's, so that results look alike."""

    space = None
    companion = None
    counts_english = True
    most_tokens = MOST_TOKENS
    prefix_tokens = PREFIX_TOKENS
    clear_similarity = 0.0
    languages: frozenset[str] | None = None

    def __init__(self) -> None:
        self._is_prepared = False

    async def prepare(self) -> None:
        """Log once what this means for search."""
        if not self._is_prepared:
            self._is_prepared = True
            log.info("📄 EMBEDDER is none: search finds by words alone, not by meaning")

    def count_tokens(self, text: str) -> int:
        """Estimate the number of tokens."""
        return estimate_tokens(text)

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return no vectors, whatever the texts."""
        await self.prepare()
        return []

    async def close(self) -> None:
        """There is nothing to close."""
