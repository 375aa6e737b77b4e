"""The two protocols of search: an embedder turns text into vectors, an index keeps and finds chunks."""

from __future__ import annotations

import math
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from core.errors import FreshetError
from core.models import Chunk, VectorSpace
from core.search.models import ChunkText, Hit, Hits, IndexedPage, IndexQuery

Vector = bytes
"""float32, little-endian, of length 1: what Redis keeps and what can be compared by a dot product."""
SpaceVectors = Mapping[str, Vector]
"""The vectors of one chunk by the names of their spaces."""
NO_VECTORS: Mapping[str, Vector] = MappingProxyType({})
MOST_DIMENSIONS = 65_536
LENGTH_TOLERANCE = 0.01


def is_unit_vector(vector: Vector, dimension: int) -> bool:
    """Return whether these bytes, which anybody may have written into Redis, are a vector of so many dimensions."""
    if not vector or len(vector) != 4 * dimension:
        return False
    # NaN and infinity make the length NaN or infinite, and no comparison with that is true.
    return abs(math.hypot(*struct.unpack(f"<{dimension}f", vector)) - 1) <= LENGTH_TOLERANCE


class EmbedderUnavailable(FreshetError):
    """The model or its endpoint cannot answer now; retry after so many seconds. Never the fault of a text."""

    def __init__(self, sentence: str, retry_after_seconds: float = 60.0) -> None:
        super().__init__(sentence)
        self.retry_after_seconds = retry_after_seconds


class Embedder(Protocol):
    """Turns texts into vectors of one space."""

    async def prepare(self) -> None:
        """Load the model, or ask the endpoint for its dimension. Call before `space`. Raises EmbedderUnavailable."""
        ...

    @property
    def space(self) -> VectorSpace | None:
        """The space of its vectors; None: it makes none, and search is by words alone."""
        ...

    @property
    def languages(self) -> frozenset[str] | None:
        """The languages its model understands (ISO 639 codes); None: all, as far as we know."""
        ...

    @property
    def clear_similarity(self) -> float:
        """How similar the nearest passage at least is, by cosine, to a question that it answers with none of its words;
        0: not known."""
        ...

    @property
    def companion(self) -> Embedder | None:
        """The model of languages that this one does not understand; None: there is none."""
        ...

    @property
    def counts_english(self) -> bool:
        """Whether its tokens are made for English: texts in other languages are then cut by letters."""
        ...

    def count_tokens(self, text: str) -> int:
        """Return the length of a text in tokens of the model."""
        ...

    @property
    def prefix_tokens(self) -> int:
        """How many tokens it has left for title and headings in front of a chunk."""
        ...

    @property
    def most_tokens(self) -> int:
        """The longest text a chunk may have."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector for each text, in order. Raises EmbedderUnavailable; any other exception is a bug."""
        ...

    async def close(self) -> None:
        """Release the model or the connections."""
        ...


class Index(Protocol):
    """Keeps chunks and finds them. The searcher checks its hits against the live versions in Redis."""

    async def upsert(
        self,
        page: IndexedPage,
        chunks: Sequence[Chunk],
        vectors: Mapping[str, Vector],
        others: Mapping[str, Vector] = NO_VECTORS,
    ) -> None:
        """Add this version of a page beside older ones; chunks without a vector are found by words alone.

        `vectors` are of the main model, `others` of that of other languages.
        """
        ...

    async def keep_only(self, item_id: str, version: str) -> None:
        """Remove all other versions of the page."""
        ...

    async def delete(self, item_ids: Sequence[str]) -> None:
        """Remove all versions of these pages."""
        ...

    def iter_ids(self) -> AsyncIterator[tuple[str, str, str]]:
        """Yield id, item id and version of every chunk."""
        ...

    async def search(self, query: IndexQuery) -> Hits:
        """Return the best chunks, best first.

        A page in a language that no model understands is found by its words alone, and these then count in full.
        """
        ...

    async def texts(self, hits: Sequence[Hit]) -> dict[str, ChunkText]:
        """Return the texts of these hits by chunk id, without those that were removed since the search."""
        ...

    async def count(self) -> int:
        """Return the number of chunks."""
        ...
