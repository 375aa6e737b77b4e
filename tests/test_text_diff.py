"""What changed between two versions of a text."""

from __future__ import annotations

import random

from core.registry.text_diff import MOST_CHARS, MOST_LINES, DiffKind, DiffLine, diff_texts


def shown(lines: list[DiffLine] | None) -> list[str]:
    """Each line with its sign; parts that differ in brackets."""
    assert lines is not None
    signs = {DiffKind.SAME: "  ", DiffKind.ADDED: "+ ", DiffKind.REMOVED: "- ", DiffKind.GAP: "… "}
    return [signs[one.kind] + "".join(f"[{text}]" if other else text for text, other in one.parts) for one in lines]


def test_changed_words_are_marked_within_their_lines() -> None:
    """Lines far from a change are counted and not shown; of a changed line only the words that differ are marked."""
    before = "one\ntwo\nthree\nThe weir was built in 1880.\nfour"
    after = "one\ntwo\nthree\nThe weir was built in 1881.\nfour\nfive"

    assert shown(diff_texts(before, after)) == [
        "… 2",
        "  three",
        "- The weir was built in [1880].",
        "+ The weir was built in [1881].",
        "  four",
        "+ five",
    ]


def test_same_text_has_no_changes() -> None:
    """Nothing but a gap."""
    assert {line.kind for line in diff_texts("a\nb\nc", "a\nb\nc") or ()} == {DiffKind.GAP}
    assert diff_texts("", "") == []


def test_lines_that_share_nothing_are_not_marked_word_by_word() -> None:
    """A paragraph that was replaced is removed and added as a whole."""
    assert shown(diff_texts("alpha", "omega")) == ["- alpha", "+ omega"]


def test_texts_that_are_too_long_are_not_compared() -> None:
    """By characters and by lines."""
    assert diff_texts("x" * (MOST_CHARS + 1), "") is None
    assert diff_texts("x\n" * (MOST_LINES + 1), "") is None


def test_whatever_the_texts_every_line_is_told() -> None:
    """Also where the budget is used up: what was removed and added makes the one text out of the other."""
    dice = random.Random(7)
    letters = ["\n".join(str(dice.randrange(20)) for _ in range(3_000)) for _ in range(2)]
    words = [" ".join(str(dice.randrange(20)) for _ in range(20_000)) for _ in range(2)]
    for before, after in (letters, words):
        lines = diff_texts(before, after) or []
        old = ["".join(part for part, _ in one.parts) for one in lines if one.kind is DiffKind.REMOVED]
        new = ["".join(part for part, _ in one.parts) for one in lines if one.kind is DiffKind.ADDED]
        same = sum(int(one.parts[0][0]) if one.kind is DiffKind.GAP else 1 for one in lines) - len(old) - len(new)

        assert same + len(old) == len(before.splitlines())
        assert same + len(new) == len(after.splitlines())
