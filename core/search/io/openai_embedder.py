"""The embedder behind any endpoint that speaks OpenAI's `POST /embeddings`: OpenAI, Ollama, vLLM, TEI, LM Studio.

Halves what is refused, believes no answer it has not checked, and never sends an empty string.
No text blocks the rest: one that is refused however short stands where an empty one does.
The address is the operator's own choice, so it may be private; redirects are not followed. How one request goes is in
`openai_api`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from core.models import VectorSpace
from core.search.chunking import estimate_tokens
from core.search.io.openai_api import SETTING_RETRY_SECONDS, EmbeddingsApi, Endpoint, TextsRefused
from core.search.protocols import EmbedderUnavailable, Vector

__all__ = ["Endpoint", "OpenAIEmbedder"]

LONGEST_CHARACTERS = 20_000
"""More is never sent: no window is longer, and chunks are far shorter."""
SHORTEST_CHARACTERS = 16
"""A text that is refused at this length is refused for what it says."""
STAND_IN = "."
"""For texts without a letter. Servers refuse empty strings, and some trim blanks."""

log = logging.getLogger("embed")


class OpenAIEmbedder:
    """The first answer fixes the dimension; an answer of another one is refused."""

    languages: frozenset[str] | None = None

    def __init__(self, endpoint: Endpoint, chunker_version: str, batch: int, most_tokens: int) -> None:
        self.most_tokens = most_tokens
        self._wire = EmbeddingsApi(endpoint)
        self._endpoint = endpoint
        self._chunker_version = chunker_version
        self._at_once = batch
        self._refusals = 0
        self._stand_in: Vector = b""
        """The vector of `STAND_IN`: our first question, and the answer to texts that cannot be asked."""

    async def prepare(self) -> None:
        """Ask once what dimension the vectors have. Raises EmbedderUnavailable."""
        if not self._stand_in:
            self._stand_in = await self._probe()

    @property
    def space(self) -> VectorSpace:
        """Known once `prepare` has come back."""
        if not self._stand_in:
            raise RuntimeError("Call prepare() first: only the endpoint knows the dimension.")
        return VectorSpace(self._endpoint.model, len(self._stand_in) // 4, self._chunker_version)

    def count_tokens(self, text: str) -> int:
        """An estimate: every model counts its own way, and none tells how."""
        return estimate_tokens(text)

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One vector for each text; of a text that is refused, of its first part."""
        if not texts:
            return []
        await self.prepare()
        vectors = [self._stand_in] * len(texts)
        cleaned = [_sendable(text) for text in texts]
        # Of about equal length, since servers pad the short ones of a request.
        order = sorted((place for place, text in enumerate(cleaned) if text), key=lambda place: len(cleaned[place]))
        while order:
            places, order = order[: self._at_once], order[self._at_once :]
            found = await self._group([cleaned[place] for place in places])
            for place, vector in zip(places, found, strict=True):
                vectors[place] = vector
        return vectors

    async def close(self) -> None:
        """Let go of the connections."""
        await self._wire.close()

    async def _group(self, texts: Sequence[str]) -> list[Vector]:
        try:
            return self._of_our_space(await self._wire.ask(texts))
        except TextsRefused:
            self._refusals += 1
        if len(texts) == 1:
            return [await self._of_first_part(texts[0])]
        return await self._of_halves(texts)

    async def _of_halves(self, texts: Sequence[str]) -> list[Vector]:
        middle, before = (len(texts) + 1) // 2, self._refusals
        found = [*await self._group(texts[:middle]), *await self._group(texts[middle:])]
        if self._refusals == before and middle < self._at_once:
            self._at_once = middle
            log.info("✂️ The embedding endpoint takes no more than %d texts at once", middle)
        return found

    async def _of_first_part(self, text: str) -> Vector:
        # If it refuses the shortest text as well, the settings are to blame, and nothing may be made up.
        await self._probe()
        characters = len(text)
        while (characters := characters // 2) >= SHORTEST_CHARACTERS:
            try:
                vector = self._of_our_space(await self._wire.ask([text[:characters]]))[0]
            except TextsRefused:
                continue
            log.warning("✂️ A text of %d characters is embedded by its first %d", len(text), characters)
            return vector
        log.warning("🚫 The embedding endpoint refuses a text of %d characters; it is found by words alone", len(text))
        return self._stand_in

    async def _probe(self) -> Vector:
        try:
            vector = (await self._wire.ask([STAND_IN]))[0]
        except TextsRefused as refused:
            raise EmbedderUnavailable(
                f"{self._endpoint.shown} refuses every text; check EMBED_MODEL and EMBED_DIMENSIONS. {refused}".strip(),
                SETTING_RETRY_SECONDS,
            ) from None
        asked = self._endpoint.dimensions
        if asked and len(vector) != asked * 4:
            sentence = f"EMBED_DIMENSIONS is {asked}, but {self._endpoint.shown} gives {len(vector) // 4}."
            raise EmbedderUnavailable(sentence, SETTING_RETRY_SECONDS)
        return vector

    def _of_our_space(self, vectors: list[Vector]) -> list[Vector]:
        wrong = next((vector for vector in vectors if len(vector) != len(self._stand_in)), None)
        if wrong is None:
            return vectors
        raise EmbedderUnavailable(
            f"{self._endpoint.shown} gave a vector of {len(wrong) // 4} dimensions after {len(self._stand_in) // 4}: "
            f"another model answers to the name in EMBED_MODEL."
        )


def _sendable(text: str) -> str:
    """What may be sent of it; halves of surrogate pairs are no text."""
    cut = text[:LONGEST_CHARACTERS].strip()
    return cut if cut.isascii() else cut.encode("utf-8", "ignore").decode().strip()
