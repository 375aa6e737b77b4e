"""Choose the embedding models of a text by its language. A page gets vectors of every model that knows it."""

from __future__ import annotations

import re

from core.models import Chunk
from core.pages.language_by_stop_words import SAMPLE_CHARS, UNKNOWN_SCRIPT, language_by_stop_words
from core.search import chunking
from core.search.chunking import BY_LETTERS, ChunkSize
from core.search.protocols import Embedder
from core.search.query_stop_words import question_language
from core.search.vector_spaces import Spaces

MAIN_LANGUAGE = "en"
"""A text in Latin letters whose language cannot be told is treated as this one."""

_WORD = re.compile(r"[^\W\d_]+")
# In this order: Japanese has Chinese letters too.
_SCRIPTS = (
    ("ja", re.compile(r"[\u3040-\u30ff]")),
    ("ko", re.compile(r"[\uac00-\ud7af\u1100-\u11ff]")),
    ("zh", re.compile(r"[\u3400-\u9fff\uf900-\ufaff]")),
    ("ru", re.compile(r"[\u0400-\u04ff]")),
    ("ar", re.compile(r"[\u0600-\u06ff]")),
    ("th", re.compile(r"[\u0e00-\u0e7f]")),
)


def language_of(text: str, stated: str = "") -> str:
    """Return the language of a text by its words and letters; empty if nothing can be told of Latin letters."""
    language = language_by_stop_words(text, _primary(stated))
    if language != UNKNOWN_SCRIPT:
        return language
    # The language that most often has these letters: a model of it at least knows the letters.
    sample = text[:SAMPLE_CHARS]
    return next((name for name, letters in _SCRIPTS if letters.search(sample)), UNKNOWN_SCRIPT)


def language_of_question(text: str) -> str:
    """Return the language of a question: it is short, so fewer small words tell than in a page; empty if none do."""
    return language_of(text) or question_language(_WORD.findall(text[:SAMPLE_CHARS]))


def speaks(embedder: Embedder, language: str) -> bool:
    """Return whether a model understands a language; all do if it is not known which they understand."""
    return embedder.languages is None or (language or MAIN_LANGUAGE) in embedder.languages


def models_of(embedder: Embedder, language: str) -> tuple[Embedder, ...]:
    """Return the models that know a language, the main one first; none if none does."""
    models = (embedder, embedder.companion)
    return tuple(model for model in models if model is not None and speaks(model, language))


def all_models(embedder: Embedder) -> tuple[Embedder, ...]:
    """Return the main model and that of other languages, if there is one."""
    return (embedder,) if embedder.companion is None else (embedder, embedder.companion)


def spaces_of(models: tuple[Embedder, ...]) -> Spaces:
    """Return the spaces of these models, which were prepared; without those that make no vectors."""
    return Spaces(model.space for model in models if model.space is not None)


def chunk_size(embedder: Embedder, language: str) -> ChunkSize:
    """Return how long the chunks of a text in this language are."""
    if embedder.counts_english and (language or MAIN_LANGUAGE) != MAIN_LANGUAGE:
        return BY_LETTERS
    return ChunkSize(embedder.count_tokens, embedder.most_tokens)


def cut(item_id: str, markdown: str, language: str, embedder: Embedder) -> list[Chunk]:
    """Cut a text in this language into chunks as long as the embedder likes them."""
    size = chunk_size(embedder, language)
    return chunking.chunks(item_id, markdown, size.count, size.most, size.version)


def _primary(code: str) -> str:
    """Return `de` of `de-AT`."""
    return code.lower().partition("-")[0].partition("_")[0]
