"""Letters without case and diacritics, and where each of them was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.search.letters import fold_letters

MIXED = st.text(st.sampled_from("aB_ –’“”…äÖßéİΣςﬁ½ℂЖж天気한नदि\u0301\ud800"), max_size=80)


@given(st.text(max_size=80) | MIXED)
def test_a_text_is_folded_letter_by_letter(text: str) -> None:
    """A letter is folded in the same way whatever stands beside it, and comes from where it stood."""
    folded, origin = fold_letters(text)
    alone = [fold_letters(letter)[0] for letter in text]

    assert folded == "".join(alone)
    assert list(origin) == [at for at, plain in enumerate(alone) for _ in plain]


@pytest.mark.parametrize(
    ("written", "folded"),
    [("ÜBER", "uber"), ("Straße", "strasse"), ("ΟΔΟΣ", "οδοσ"), ("ℂ and ℻", "c and fax"), ("İstanbul", "istanbul")],
)
def test_case_and_diacritics_go(written: str, folded: str) -> None:
    """Capitals are small in the end, also those that a sign stands for."""
    assert fold_letters(written)[0] == folded
