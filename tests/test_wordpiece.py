"""Our WordPiece against the library of the model's makers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.search.io import local_embedder


@pytest.fixture(scope="session")
def reference() -> Callable[[str], list[int]]:
    """The same by the library of the model's makers."""
    tokenizers = pytest.importorskip("tokenizers", reason="not installed: ./scripts/setup dev")
    path = Path(local_embedder.__file__).parent / "model" / "vocab.txt"
    made = tokenizers.BertWordPieceTokenizer(str(path), lowercase=True)

    def encode(text: str) -> list[int]:
        found: list[int] = made.encode(text, add_special_tokens=False).ids
        return found

    return encode


# Scripts whose letters have been in Unicode for long: the library's tables are older than Python's.
ODD = "“”–…€☃漢字かなカナ한국עבابЖ😀Ǆﬁﬃ①Ⅷẞ豈\u200d\ufeff\ufffd\u2028"
LETTERS = st.characters(codec="utf-8", max_codepoint=0x52F) | st.sampled_from(ODD)


@given(text=st.text(LETTERS, max_size=60))
def test_tokens_are_those_of_the_library(reference: Callable[[str], list[int]], text: str) -> None:
    """Our WordPiece makes the same numbers as the makers' library of any text without their marks."""
    plain = text.replace("[", "(")

    assert local_embedder.wordpiece().encode(plain) == reference(plain)


@pytest.mark.parametrize(
    "text",
    [
        "unaffable counterrevolutionaries' e-mail: a.b@c.example (£3.50, 50%)",
        "ΟΔΥΣΣΕΎΣ İstanbul STRASSE straße",
        "x" * 100 + " " + "x" * 101,
        "10,000.00 1990s C++ #tag a_b <b>`code`</b> ~^|$+=",
        "漢字とカナ tone〮mark ﷽",
    ],
)
def test_tokens_of_hard_words(reference: Callable[[str], list[int]], text: str) -> None:
    """Symbols, final sigma, long words and scripts are cut as in training."""
    assert local_embedder.wordpiece().encode(text) == reference(text)
    assert local_embedder.wordpiece().count(text) == len(reference(text))


def test_marks_in_a_text_are_text() -> None:
    """A page that writes [SEP] does not end the model's reading."""
    pieces = local_embedder.wordpiece()

    assert pieces.number("[SEP]") not in pieces.encode("a [SEP] b")
