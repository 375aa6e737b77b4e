"""The embedder behind any endpoint that speaks OpenAI's `POST /embeddings`: OpenAI, Ollama, vLLM, TEI, LM Studio.

Halves what is refused, checks every response, and never sends an empty string. No text blocks the rest: one that is
refused however short gets the vector of an empty one. The address is the operator's own choice, so it may be private;
redirects are not followed. `openai_api` sends the requests.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from core.models import VectorSpace
from core.search.chunking import PREFIX_TOKENS, estimate_tokens
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
    """The first response fixes the dimension; a vector of another one is refused."""

    languages: frozenset[str] | None = None
    companion = None
    counts_english = False
    prefix_tokens = PREFIX_TOKENS
    clear_similarity = 0.0  # of models that anyone may name

    def __init__(self, endpoint: Endpoint, chunker_version: str, batch: int, most_tokens: int) -> None:
        self.most_tokens = most_tokens
        self._api = EmbeddingsApi(endpoint)
        self._endpoint = endpoint
        self._chunker_version = chunker_version
        self._at_once = batch
        self._refusals = 0
        self._stand_in: Vector = b""
        """The vector of `STAND_IN`: the first request, and the result for texts that cannot be sent."""

    async def prepare(self) -> None:
        """Find out by one request what dimension the vectors have. Raises EmbedderUnavailable."""
        if not self._stand_in:
            self._stand_in = await self._probe()

    @property
    def space(self) -> VectorSpace:
        """The space of its vectors; known after `prepare`."""
        if not self._stand_in:
            raise RuntimeError("Call prepare() first: only the endpoint knows the dimension.")
        return VectorSpace(self._endpoint.model, len(self._stand_in) // 4, self._chunker_version)

    def count_tokens(self, text: str) -> int:
        """Estimate the number of tokens: every model counts its own way, and none tells how."""
        return estimate_tokens(text)

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector for each text; of a text that is refused, that of its first part."""
        if not texts:
            return []
        await self.prepare()
        vectors = [self._stand_in] * len(texts)
        # Surrogates that are no pair cannot be encoded.
        cleaned = [text[:LONGEST_CHARACTERS].encode("utf-8", "ignore").decode().strip() for text in texts]
        # Of about equal length, since servers pad the short ones of a request.
        order = sorted((place for place, text in enumerate(cleaned) if text), key=lambda place: len(cleaned[place]))
        while order:
            places, order = order[: self._at_once], order[self._at_once :]
            made = await self._embed_group([cleaned[place] for place in places])
            for place, vector in zip(places, made, strict=True):
                vectors[place] = vector
        return vectors

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()

    async def _embed_group(self, texts: Sequence[str]) -> list[Vector]:
        try:
            return self._of_our_space(await self._api.embed(texts))
        except TextsRefused:
            self._refusals += 1
        if len(texts) == 1:
            return [await self._embed_first_part(texts[0])]
        middle, before = (len(texts) + 1) // 2, self._refusals
        vectors = [*await self._embed_group(texts[:middle]), *await self._embed_group(texts[middle:])]
        if self._refusals == before and middle < self._at_once:
            self._at_once = middle
            log.info("✂️ The embedding endpoint takes no more than %d texts at once", middle)
        return vectors

    async def _embed_first_part(self, text: str) -> Vector:
        # If it refuses the shortest text as well, the settings are to blame, and nothing may be made up.
        await self._probe()
        characters = len(text)
        while (characters := characters // 2) >= SHORTEST_CHARACTERS:
            try:
                vector = self._of_our_space(await self._api.embed([text[:characters]]))[0]
            except TextsRefused:
                continue
            log.warning("✂️ A text of %d characters is embedded by its first %d", len(text), characters)
            return vector
        log.warning("🚫 The embedding endpoint refuses a text of %d characters; it is found by words alone", len(text))
        return self._stand_in

    async def _probe(self) -> Vector:
        try:
            vector = (await self._api.embed([STAND_IN]))[0]
        except TextsRefused as refused:
            raise EmbedderUnavailable(
                f"{self._endpoint.shown} refuses every text; check EMBED_MODEL and EMBED_DIMENSIONS. {refused}".strip(),
                SETTING_RETRY_SECONDS,
            ) from None
        wanted = self._endpoint.dimensions
        if wanted and len(vector) != wanted * 4:
            sentence = f"EMBED_DIMENSIONS is {wanted}, but {self._endpoint.shown} gives {len(vector) // 4}."
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
