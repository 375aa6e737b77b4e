"""Tell the language of a page, as two letters where ISO 639-1 has them: the stated one, else a guess from the text."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from core.pages.language_by_stop_words import clear_language, language_by_stop_words
from core.pages.metadata import PageMetadata

SAMPLE_CHARS = 1_000
"""Enough for a sure guess, at a tenth of the cost of a whole text."""
_MIN_CHARS = 40
MIN_PROBABILITY = 0.5
"""Less certain guesses come from code, tables and lists of names."""
_TAG = re.compile(r"[a-z]{2,3}(?=$|[-_])")
# Words that stand where a language should, and old codes.
_NO_LANGUAGE = {"und", "mul", "zxx", "xx", "iso", "utf"}
_RENAMED = {"iw": "he", "in": "id", "ji": "yi", "mo": "ro", "jp": "ja", "cz": "cs", "dk": "da", "gr": "el", "ua": "uk"}
_THREE = {"eng": "en", "deu": "de", "ger": "de", "fra": "fr", "fre": "fr", "spa": "es", "ita": "it", "por": "pt"}
_THREE |= {"rus": "ru", "zho": "zh", "chi": "zh", "jpn": "ja", "kor": "ko", "nld": "nl", "pol": "pl", "tur": "tr"}


def page_language(metadata: PageMetadata, text: str) -> str:
    """Return the stated language, unless the text plainly contradicts it; many templates say `en` of everything."""
    stated = stated_language(metadata)
    is_plausible = bool(stated) and language_by_stop_words(text, stated) == stated
    return stated if is_plausible else guess_language(text) or stated


def stated_language(metadata: PageMetadata) -> str:
    """Return the language that the page states; empty if it states none."""
    for value in (
        metadata.lang,
        metadata.meta("og:locale"),
        metadata.meta("content-language", "language", "dc.language"),
    ):
        code = _TAG.match(value.partition(",")[0].strip().lower())
        if code and code[0] not in _NO_LANGUAGE:
            return _RENAMED.get(code[0]) or _THREE.get(code[0]) or code[0]
    return ""


def guess_language(text: str) -> str:
    """Return the most likely language of this text; empty for texts too short or too odd to tell."""
    if len(text) < _MIN_CHARS:
        return ""
    # Most pages that state nothing are clear, and need no model.
    if clear := clear_language(text):
        return clear
    code, probability = _identifier().classify(text[:SAMPLE_CHARS])
    return str(code) if probability >= MIN_PROBABILITY else ""


@lru_cache(maxsize=1)
def _identifier() -> Any:
    """Loaded once per process, and only when a guess is needed: NumPy alone takes 0.1 s."""
    from core.pages import language_model

    return language_model.load_identifier(language_model.unpacked_folder())
