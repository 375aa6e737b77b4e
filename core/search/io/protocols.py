"""The seams of search: who turns text into vectors, and who finds chunks.

An embedder that cannot answer for a while raises `EmbedderUnavailable` with how long to wait; no text is to blame.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from core.errors import FreshetError
from core.models import Chunk, VectorSpace

Vector = bytes
"""float32, little-endian, of length 1: what Redis keeps and what can be compared by a dot product."""


class EmbedderUnavailable(FreshetError):
    """The model or its endpoint cannot answer now; try again after so many seconds."""

    def __init__(self, sentence: str, retry_after_seconds: float = 60.0) -> None:
        super().__init__(sentence)
        self.retry_after_seconds = retry_after_seconds


class Embedder(Protocol):
    """Turns texts into vectors of one space."""

    async def prepare(self) -> None:
        """Load the model or ask the endpoint for its dimension. Call before `space`. Raises EmbedderUnavailable."""
        ...

    @property
    def space(self) -> VectorSpace | None:
        """The space its vectors are in; None: it makes none, search is by words alone."""
        ...

    @property
    def languages(self) -> frozenset[str] | None:
        """The languages its model speaks (ISO 639 codes); None: all, as far as we know."""
        ...

    def count_tokens(self, text: str) -> int:
        """How long a text is to the model."""
        ...

    @property
    def most_tokens(self) -> int:
        """The longest text a chunk may have."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One vector for each text, in order. Raises EmbedderUnavailable; any other trouble is a bug."""
        ...

    async def close(self) -> None:
        """Let go of model or connections."""
        ...


@dataclass(frozen=True, slots=True)
class Page:
    """What search knows of an item beside its chunks."""

    item_id: str
    version: str
    """The content hash its chunks were made of."""
    url: str = ""
    title: str = ""
    language: str = ""
    type: str = "url"
    host: str = ""
    categories: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    published_ts: float = 0.0
    updated_ts: float = 0.0
    author: str = ""
    image: str = ""
    group: str = ""
    """`contentGroupId`: the same for http and https and whatever the query, of pages at one host and path."""
    reads_as: str = ""
    """The language its text reads as, whatever it says of itself; "": not known, and written in Latin letters."""


@dataclass(frozen=True, slots=True)
class Filters:
    """What a search is limited to; empty: everything."""

    categories: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    since_ts: float | None = None
    until_ts: float | None = None


class Hit(NamedTuple):
    """A chunk that was found, and why. A tuple, since every question makes hundreds."""

    chunk_id: str
    item_id: str
    version: str
    score: float
    lexical: float = 0.0
    semantic: float = 0.0
    """The parts of the score, each between 0 and 1, for `explain`."""
    page: Page | None = None
    number: int = 0
    """Where the back end finds it again."""


class Hits(list[Hit]):
    """Chunks, best first."""

    def __init__(self, hits: Iterable[Hit] = (), *, is_cut: bool = False) -> None:
        super().__init__(hits)
        self.is_cut = is_cut
        """Words found more than these."""


@dataclass(frozen=True, slots=True)
class ChunkText:
    """What a chunk says. Not part of a hit: hundreds of chunks are ranked and some thirty shown, and reading costs."""

    text: str
    headings: tuple[str, ...] = ()
    level: int = 0
    types: tuple[str, ...] = ()


class Index(Protocol):
    """Keeps chunks and finds them. What it returns is checked against the live pointers by whoever asks."""

    async def upsert(self, page: Page, chunks: Sequence[Chunk], vectors: Mapping[str, Vector]) -> None:
        """Make this version of a page findable, beside an older one; chunks without a vector by words alone."""
        ...

    async def flip(self, item_id: str, version: str) -> None:
        """From now on only this version of the page."""
        ...

    async def delete(self, item_ids: Sequence[str]) -> None:
        """Forget these pages."""
        ...

    def iter_ids(self) -> AsyncIterator[tuple[str, str, str]]:
        """Every chunk: its id, item and version; for reconciliation."""
        ...

    async def search(
        self,
        text: str,
        vector: Vector | None,
        filters: Filters,
        limit: int,
        lexical_weight: float = 0.5,
        spoken: frozenset[str] | None = None,
    ) -> Hits:
        """The best chunks, best first.

        `spoken`: languages that the vectors mean anything for; None: all. A page that reads as another is found by its
        words alone, and these then count in full.
        """
        ...

    async def texts(self, hits: Sequence[Hit]) -> dict[str, ChunkText]:
        """What the chunks of these hits say, by chunk id; what is gone since the search is left out."""
        ...

    async def count(self) -> int:
        """How many chunks there are."""
        ...
