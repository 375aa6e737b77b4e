"""No embedder: search is by words alone, and the log says so once."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from core.search.chunk import MOST_TOKENS, estimate_tokens
from core.search.protocols import Vector

log = logging.getLogger("embed")


class NoEmbedder:
    """Has no space. Its chunks are as long as the local model's, so that results look alike."""

    space = None
    most_tokens = MOST_TOKENS
    languages: frozenset[str] | None = None

    def __init__(self) -> None:
        self._has_said_so = False

    async def prepare(self) -> None:
        """Says what that means, once."""
        if not self._has_said_so:
            self._has_said_so = True
            log.info("📄 EMBEDDER is none: search finds by words alone, not by meaning")

    def count_tokens(self, text: str) -> int:
        """An estimate."""
        return estimate_tokens(text)

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """No vectors, whatever the texts: who has no space has nothing to give."""
        await self.prepare()
        return []

    async def close(self) -> None:
        """Nothing to let go of."""
