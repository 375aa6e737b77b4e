"""What there is to embed: the texts of items, and what search has of them, many in a few round trips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core import chunk as chunking
from core.indexes.protocols import Embedder
from core.keys import Keys
from core.models import Chunk
from core.registry import Item
from core.stores.chunk_removal import OldChunks
from core.stores.connect import Client

PREFIX_TOKENS = chunking.WINDOW_TOKENS - chunking.MOST_TOKENS
"""What models leave for title and headings in front of a chunk."""
FIELDS = ["title", "url", "markdown", "content_hash", "status"]


@dataclass(frozen=True, slots=True)
class Text:
    """What is to be embedded of an item."""

    title: str
    url: str
    markdown: str
    content_hash: str


@dataclass(frozen=True, slots=True)
class Page:
    """An item whose text search shall know: the chunks of it, and those that search has now."""

    item: Item
    text: Text
    chunks: Sequence[Chunk]
    old: OldChunks


async def read_texts(client: Client, keys: Keys, items: Sequence[Item]) -> dict[str, Text]:
    """By item id, the texts that the records' hashes belong to; not those that are not there, or hidden."""
    articles = await _said(client, {item.id: keys.article(item.article_uid) for item in items if item.article_uid})
    # One that has ended leaves what a site has of the same page.
    shown = {item_id: said for item_id, said in articles.items() if said[4] is not None}
    documents = await _said(client, {item.id: keys.document(item.id) for item in items if item.id not in shown})
    said, found = documents | shown, dict[str, Text]()
    for item in items:
        title, url, markdown, content_hash, status = said[item.id]
        is_hidden = item.id in shown and status != "success"
        if markdown is not None and content_hash == item.content_hash and not is_hidden:
            found[item.id] = Text(title or "", url or "", markdown, content_hash)
    return found


async def _said(client: Client, places: Mapping[str, str]) -> dict[str, list[str | None]]:
    pipe = client.pipeline(transaction=False)
    for key in places.values():
        pipe.hmget(key, FIELDS)
    return dict(zip(places, await pipe.execute() if places else [], strict=True))


def cut(item: Item, text: Text, embedder: Embedder) -> list[Chunk]:
    """The chunks of a text, as long as the embedder likes them."""
    return chunking.chunks(item.id, text.markdown, embedder.count_tokens, embedder.most_tokens)


def embedded(chunk: Chunk, text: Text, embedder: Embedder) -> str:
    """With title and headings in front, as far as the model's window has room for them."""
    window = embedder.most_tokens + PREFIX_TOKENS
    return chunking.embedded_text(chunk, text.title, text.url, embedder.count_tokens, window)
