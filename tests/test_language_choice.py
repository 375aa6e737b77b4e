"""The language a page is in: its own word, else a guess."""

from __future__ import annotations

import pytest

from core.pages.language_choice import guess_language, page_language, stated_language
from core.pages.metadata import MetadataElement
from tests.pages import PARAGRAPH, head, meta


@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        ([MetadataElement("html", {"lang": "en-US"})], "en"),
        ([MetadataElement("html", {"lang": "DE_at"})], "de"),
        ([MetadataElement("html", {"xml:lang": "fr"})], "fr"),
        ([MetadataElement("html", {"lang": "en"}), meta("og:locale", "de_DE")], "en"),
        ([meta("og:locale", "pt_BR")], "pt"),
        ([MetadataElement("meta", {"http-equiv": "content-language", "content": "nl, en"})], "nl"),
        ([MetadataElement("html", {"lang": "eng"})], "en"),
        ([MetadataElement("html", {"lang": "iw"})], "he"),
        ([MetadataElement("html", {"lang": "{{ lang }}"})], ""),
        ([MetadataElement("html", {"lang": "und"})], ""),
        ([], ""),
    ],
)
def test_stated(elements: list[MetadataElement], expected: str) -> None:
    """Two letters, whatever form the page gives them; templates and placeholders are no language."""
    assert stated_language(head(*elements)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PARAGRAPH, "en"),
        ("Die Mühle steht seit vierhundert Jahren am Fluss, und der Fluss war nicht immer gut zu ihr.", "de"),
        ("Мельница стоит у реки четыреста лет, и река не всегда была к ней добра.", "ru"),
        ("Too short", ""),
        ("if err != nil { return err } fmt.Println(x, y, z)", ""),
    ],
)
def test_guessed(text: str, expected: str) -> None:
    """A sentence is enough, a word is not, and code is no language."""
    assert guess_language(text) == expected


@pytest.mark.parametrize(
    ("lang", "text", "expected"),
    [
        ("en", PARAGRAPH, "en"),
        ("en", "Die Mühle steht seit vierhundert Jahren am Fluss, und der Fluss war nicht immer gut zu ihr.", "de"),
        ("en", "Мельница стоит у реки четыреста лет, и река не всегда была к ней добра.", "ru"),
        ("en", "東京で会議", "en"),
        ("da", "Kort tekst.", "da"),
        ("", PARAGRAPH, "en"),
    ],
)
def test_language(lang: str, text: str, expected: str) -> None:
    """A template that says `en` of everything is not believed against the text; too little text changes nothing."""
    assert page_language(head(MetadataElement("html", {"lang": lang})), text) == expected
