"""What there is to embed of a page: its chunks, and what the model is given of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.models import Chunk
from core.registry.record import Item
from core.search import chunk as chunking
from core.search.io.chunk_remover import OldChunks
from core.search.io.live_pages import LiveText
from core.search.protocols import Embedder

PREFIX_TOKENS = chunking.WINDOW_TOKENS - chunking.MOST_TOKENS
"""What models leave for title and headings in front of a chunk."""


@dataclass(frozen=True, slots=True)
class PageToEmbed:
    """An item whose text search shall know: the chunks of it, and those that search has now."""

    item: Item
    text: LiveText
    chunks: Sequence[Chunk]
    old: OldChunks


def cut(item: Item, text: LiveText, embedder: Embedder) -> list[Chunk]:
    """The chunks of a text, as long as the embedder likes them."""
    return chunking.chunks(item.id, text.markdown, embedder.count_tokens, embedder.most_tokens)


def embedded(chunk: Chunk, text: LiveText, embedder: Embedder) -> str:
    """With title and headings in front, as far as the model's window has room for them."""
    window = embedder.most_tokens + PREFIX_TOKENS
    return chunking.embedded_text(chunk, text.title, text.url, embedder.count_tokens, window)
