"""Read the chunks of one page whole, and tell what search can do with them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from redis.exceptions import ResponseError

from core.keys import Keys
from core.models import VectorSpace
from core.pages.text_cleaning import content_hash
from core.search import vectors
from core.store.connect import Client

_FIELDS = ("item", "text", "text_hash", "space")


class ChunkState(IntEnum):
    """What search can do with the chunks of a page."""

    UNUSABLE = 0
    """Some are missing, or are not what they were made of."""
    BY_WORDS = 1
    """The texts are there; vectors are missing, or of another space."""
    WHOLE = 2


class ChunkInspector:
    """Reads chunks and vectors."""

    def __init__(self, client: Client, keys: Keys, *, wants_vectors: bool = False) -> None:
        """`wants_vectors`: the settings name a model, so that chunks of a store that never had one lack something."""
        self._client = client
        self._keys = keys
        self._wants_vectors = wants_vectors

    async def state(self, item_id: str, chunks: Sequence[str], count: int, space: VectorSpace | None) -> ChunkState:
        """Return the state of the worst of a page's chunks, of which there should be `count`."""
        if len(chunks) != count:
            return ChunkState.UNUSABLE
        pipe = self._client.pipeline(transaction=False)
        for name in chunks:
            pipe.hmget(self._keys.chunk(name), _FIELDS)
            pipe.get(self._keys.vector(name))
        # A key of another type answers with an error, and is as good as none.
        answers = await pipe.execute(raise_on_error=False) if chunks else []
        rows = zip(answers[::2], answers[1::2], strict=True)
        return min((self._state_of_one(item_id, space, *row) for row in rows), default=ChunkState.WHOLE)

    def _state_of_one(self, item_id: str, space: VectorSpace | None, chunk: Any, vector: Any) -> ChunkState:
        if isinstance(chunk, ResponseError):
            return ChunkState.UNUSABLE
        item, text, text_hash, chunk_space = chunk
        if item != item_id or text is None or content_hash(text) != text_hash:
            return ChunkState.UNUSABLE
        if space is None:
            lacks_vector = self._wants_vectors or chunk_space or vector is not None
            return ChunkState.BY_WORDS if lacks_vector else ChunkState.WHOLE
        return ChunkState.WHOLE if chunk_space == space.name and _is_valid(vector, space) else ChunkState.BY_WORDS


def _is_valid(vector: Any, space: VectorSpace) -> bool:
    """A client that reads text keeps bytes that are none as surrogates."""
    return isinstance(vector, str) and vectors.is_valid(vector.encode("utf-8", "surrogateescape"), space.dimension)
