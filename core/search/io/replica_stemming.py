"""Turn text into terms, in the same way for what is indexed and for queries.

Words are lower-cased, stemmed in the language of their page or letters, and lose their accents; scripts without spaces
become pairs of characters. One field holds the terms of all languages, so that a word's rarity is that of the
whole index. A query is stemmed in all languages that the index holds, and each word counts once. No input is refused.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import zip_longest

from tantivy import Filter, TextAnalyzer, TextAnalyzerBuilder, Tokenizer

from core.search.letters import PHRASE, UNSPACED
from core.search.query_stop_words import has_stop_words, without_stop_words
from core.value_class import value_class

# What tantivy's Snowball can do (tantivy-py 0.27, Filter.stemmer), by ISO 639-1.
STEMMERS = {
    "ar": "arabic",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nb": "norwegian",
    "nl": "dutch",
    "nn": "norwegian",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
}
LONGEST_WORD_BYTES = 100
"""What is longer is no word; tantivy's own limit of 40 bytes would be 20 Cyrillic letters."""
AS_WRITTEN = "as written"
"""In place of a language: neither stems nor folds, whatever the letters."""
LEAST_SPELLING, MOST_SPELLING = 3, 30
"""Letters of the words that spelling knows."""
MOST_QUERY_CHARS = 2_000
MOST_QUERY_TERMS = 64
MOST_CACHED_WORDS = 30_000
"""Words of a language with their terms; some 5 MB. The first are kept: common words come early."""

_UNSPACED_RUN = re.compile(f"[{UNSPACED}]+")
# Scripts whose vowel signs are marks, at which tantivy's simple tokenizer would cut words to pieces.
_MARKED = re.compile("[\u0900-\u109f\u1780-\u17ff]")
# Vowel points of Hebrew and Arabic, tatweel, soft hyphen and zero-width characters: written or not as people like.
# U+0300 to U+036F: accents for which NFKC knows no letter, at which the simple tokenizer would cut.
_OPTIONAL = re.compile(
    "[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u00ad\u200b-\u200f\u2060\ufeff]"
)
# Beyond Latin letters and everyday punctuation: only then is there anything to do before the tokenizer.
_UNUSUAL = re.compile("[^\x00-\u012f\u0131-\u017e\u2010-\u2026\u20ac]")
# Whatever the script: a tokenizer cuts at these, and no word is changed by small letters.
_ASCII_CUT = bytes(n if n > 127 else ord(chr(n).lower()) if chr(n).isalnum() else 32 for n in range(256))
# Letters that tell the stemmer whatever the page says; other languages with them are stemmed the same on both sides.
_SCRIPTS = (
    ("ru", re.compile("[\u0400-\u04ff]")),
    ("el", re.compile("[\u0370-\u03ff\u1f00-\u1fff]")),
    ("ar", re.compile("[\u0600-\u06ff]")),
    ("ta", re.compile("[\u0b80-\u0bff]")),
)


@value_class
class QueryTerms:
    """The terms of a query."""

    words: tuple[tuple[str, ...], ...] = ()
    """For each word that is looked for its terms, one for each way to stem it."""
    phrases: tuple[tuple[tuple[str, ...], ...], ...] = ()
    """For each quoted phrase its words in each language, of which one must be there."""
    is_phrase_alone: bool = False
    """Nothing but small words stands beside the quoted phrases."""


def stemmer(language: str) -> str:
    """Return the language itself if there is a stemmer for it, else an empty string: words as they are."""
    return language if language in STEMMERS else ""


def terms(text: str, language: str) -> str:
    """Return a text as it is indexed: its terms with spaces between.

    Tokens as objects (`pre_tokenize`) would take twice the time: 190 against 91 µs for 900 letters, index included.
    """
    spaced, has_marks = _spaced(text, is_query=False)
    cached = _term_cache(stemmer(language), has_marks)
    return " ".join(filter(None, map(cached.__getitem__, _pieces(spaced))))


def spellings(text: str) -> list[str]:
    """Return the words of a text as they are written, in small letters, where letters are all."""
    spaced, has_marks = _spaced(text, is_query=False)
    cached = _term_cache(AS_WRITTEN, has_marks)
    words = (word for piece in set(_pieces(spaced)) for word in cached[piece].split())
    return [word for word in words if LEAST_SPELLING <= len(word) <= MOST_SPELLING and word.isalpha()]


def is_quoted(text: str) -> bool:
    """Return whether a query has a quoted phrase."""
    return bool(PHRASE.search(text[:MOST_QUERY_CHARS]))


def unquoted(text: str) -> str:
    """Return a query without its quoted phrases."""
    return PHRASE.sub(" ", text[:MOST_QUERY_CHARS])


def is_phrase_alone(text: str, languages: Sequence[str]) -> bool:
    """Return whether a query has a quoted phrase, and nothing but stop words beside it."""
    if not is_quoted(text):
        return False
    beside = _surface_words(unquoted(text))
    # A word that is none of these is small exactly where it would be dropped beside it.
    return "x" not in beside and without_stop_words([*beside, "x"], languages) == ["x"]


def query_terms(text: str, languages: Sequence[str]) -> QueryTerms:
    """Return the terms of a query without its small words, for an index that holds these languages."""
    stemmers, text = _stemmers(languages), text[:MOST_QUERY_CHARS]
    surface = without_stop_words(_surface_words(text), languages)
    words = dict.fromkeys(variants for word in surface for variants in _variants(word, stemmers))
    phrases = []
    for quoted in PHRASE.findall(text):
        in_languages = dict.fromkeys(tuple(_phrase_terms(quoted, language)) for language in stemmers)
        if variants := tuple(filter(None, in_languages)):
            phrases.append(variants)
    is_alone = bool(phrases) and is_phrase_alone(text, languages)
    return QueryTerms(tuple(words)[:MOST_QUERY_TERMS], tuple(phrases), is_alone)


def is_sentence(text: str) -> bool:
    """Return whether a query has stop words of some language, or is in a script without spaces."""
    return bool(_UNSPACED_RUN.search(text)) or has_stop_words(_surface_words(text[:MOST_QUERY_CHARS]))


def word_terms(word: str, languages: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the terms of one word of a query, one for each way to stem it."""
    return [variants for surface in _surface_words(word) for variants in _variants(surface, _stemmers(languages))]


def _stemmers(languages: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(stemmer, languages))) or ("",)


def _surface_words(text: str) -> list[str]:
    """Return the words of a query as they are written, in small letters; pairs of scripts without spaces."""
    return [piece.decode() for piece in _pieces(_spaced(text, is_query=True)[0])]


def _variants(word: str, stemmers: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the terms of a word in each language; several where signs that are no letters cut it."""
    in_languages = (_analyzed(word, language, bool(_MARKED.search(word))) for language in stemmers)
    places = zip_longest(*dict.fromkeys(map(tuple, in_languages)))
    return [tuple(dict.fromkeys(filter(None, place))) for place in places]


def _phrase_terms(text: str, language: str) -> list[str]:
    spaced, has_marks = _spaced(text, is_query=True)
    return [term for piece in _pieces(spaced) for term in _analyzed(piece.decode(), language, has_marks)]


def _pieces(spaced: str) -> list[bytes]:
    """Return what stands between two ASCII signs, in small letters."""
    return spaced.encode().translate(_ASCII_CUT).split()


def _analyzed(piece: str, language: str, has_marks: bool) -> list[str]:
    """Return the terms of what stands between two ASCII signs, by the stemmer of its letters, else of this language."""
    if not piece.isascii() and language != AS_WRITTEN:
        language = next((name for name, letters in _SCRIPTS if letters.search(piece)), language)
    return _analyzer(language, has_marks).analyze(piece)


def _spaced(text: str, is_query: bool) -> tuple[str, bool]:
    """Put spaces between all terms of a text; also return whether marks belong to its words. Lone surrogates go."""
    if text.isascii() or not _UNUSUAL.search(text):
        return text.replace("\u00ad", ""), False
    sound = text.encode("utf-8", "replace").decode()
    sound = _OPTIONAL.sub("", unicodedata.normalize("NFKC", sound).replace("İ", "i"))  # else i and a dot of its own

    def in_pairs(match: re.Match[str]) -> str:
        # An indexed run also has its single characters, for queries of one. Pairs stand together: phrases.
        run = match[0]
        pairs = [run[i : i + 2] for i in range(len(run) - 1)]
        return f" {' '.join(pairs if is_query and pairs else [*pairs, *run])} "

    return _UNSPACED_RUN.sub(in_pairs, sound), bool(_MARKED.search(sound))


class _TermCache(dict[bytes, str]):
    """The terms of what stands between two ASCII signs. Most words come again: 41 against 65 µs for 940 letters."""

    def __init__(self, language: str, has_marks: bool) -> None:
        super().__init__()
        self._language = language
        self._has_marks = has_marks

    def __missing__(self, piece: bytes) -> str:
        terms = " ".join(_analyzed(piece.decode(), self._language, self._has_marks))
        if len(piece) <= LONGEST_WORD_BYTES and len(self) < MOST_CACHED_WORDS:
            self[piece] = terms
        return terms


_term_cache = cache(_TermCache)


@cache
def _analyzer(language: str, has_marks: bool) -> TextAnalyzer:
    # The regex takes twice the time of the simple tokenizer: 116 against 51 µs for 900 letters.
    tokenizer = Tokenizer.regex(r"[\p{L}\p{M}\p{N}]+") if has_marks else Tokenizer.simple()
    builder = TextAnalyzerBuilder(tokenizer).filter(Filter.remove_long(LONGEST_WORD_BYTES)).filter(Filter.lowercase())
    if language in STEMMERS:
        builder = builder.filter(Filter.stemmer(STEMMERS[language]))
    return (builder if language == AS_WRITTEN else builder.filter(Filter.ascii_fold())).build()
