"""Markdown as plain text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.search.plain_markdown import MOST_CHARS, plain_text


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("## The weir ##\n\nIt broke.", "The weir\n\nIt broke."),
        ("It **broke** in the *night*, __twice__ and _late_.", "It broke in the night, twice and late."),
        ("**over\ntwo lines** here", "over\ntwo lines here"),
        ("in**side**word", "insideword"),
        ("Call `run_mill(*args)` now", "Call run_mill(*args) now"),
        ('See [the weir](https://a.example/w_(x) "Title") there', "See the weir there"),
        ("[![A weir](w.png)](https://a.example/) and ![alt](x.png)", "A weir and alt"),
        ("cut here](https://a.example/x) and on", "cut here and on"),
        ("[the weir][1] and [1] and [sic]", "the weir and [1] and [sic]"),
        ("<https://a.example/x>", "https://a.example/x"),
        ("- one\n* two\n  + three\n- [x] four\n1. five", "one\ntwo\nthree\nfour\n1. five"),
        ("> quoted\n> > twice", "quoted\ntwice"),
        ("| Year | Level |\n| --- | ---: |\n| 1911 | 3 \\| 4 |", "Year · Level\n1911 · 3 | 4"),
        ("```python\nx = a * b  # **\n```\nafter", "x = a * b  # **\nafter"),
        ("Title\n=====\n\n---\n\ntext", "Title\n\ntext"),
        ("\\<script> \\# 1\\. \\*not\\* C:\\Users", "<script> # 1. *not* C:\\Users"),
        ("snake_case, 2*3 and 4*5, 2**10, a * b, -5, ~~old~~", "snake_case, 2*3 and 4*5, 2**10, a * b, -5, old"),
        ("#5 is no heading", "#5 is no heading"),
        ("It broke.[^1] Twice[^the-mill], said he", "It broke. Twice, said he"),
        ("[^1]: In the night.[^2]\n> [^2]: See [there](x).", "In the night.\nSee there."),
        ("as [^a-z] and x[^2 here", "as [^a-z] and x[^2 here"),
        ('See [the weir][w] and [the mill][].\n\n[w]: https://a.example/w "Weir"', "See the weir and the mill."),
        ("The [Old *Weir*] and [sic]\n\n  [old weir]: <w.html>\n[a b]: #c 'C'", "The Old Weir and [sic]"),
        ("[w]: https://a.example/w\n[mill]: m.html", "w: https://a.example/w\nmill: m.html"),
        ("[Note]: it broke in the night", "[Note]: it broke in the night"),
        ("> [!WARNING]\n> It breaks.", "Warning\nIt breaks."),
        ("[the weir](\nhttps://a.example/w)", "the weir"),
        ('<p align="center">\n<b>Weir</b><br/>and <img src="x.png"> mill</p>', "Weir and  mill"),
        ("The <!-- old\n-->weir is a List<Stone>, a<b and c>d", "The weir is a List<Stone>, a<b and c>d"),
        ("```\n[^1]: a[^2] <b>\n[w]: /w\n```", "[^1]: a[^2] <b>\n[w]: /w"),
        ("It broke[^note.1] as [^fn:2].\n\n[^fn:2]: In [^.] night", "It broke as .\n\nIn [^.] night"),
        ("R&amp;D &lt;b&gt; &#8212; &#x27;AT&T&ampx &nosuch;", "R&D <b> — 'AT&T&ampx &nosuch;"),
        ("&copy; is not &copyright;, nor &notit;", "© is not &copyright;, nor &notit;"),
        ("`&amp;` and \\&amp;\n```\n&amp; ==x==\n```", "&amp; and &amp;\n&amp; ==x=="),
        ("==broken== at ==the old weir==, a == b, a==b and b==c", "broken at the old weir, a == b, a==b and b==c"),
    ],
)
def test_marks_go(markdown: str, expected: str) -> None:
    """Marks of Markdown are not shown; what only looks like one is."""
    assert plain_text(markdown) == expected


@given(st.text(st.sampled_from("ab19 \n#*_`>|-+~.!\\"), max_size=200))
def test_words_and_numbers_stay(markdown: str) -> None:
    """Whatever is marked up, all letters and digits stay, but for the name of a code's language."""
    without_fences = re.sub(r"(?m)^[ \t]*(`{3,}|~{3,}).*$", "", markdown)

    assert re.findall("[ab19]", plain_text(without_fences)) == re.findall("[ab19]", without_fences)


@given(st.text(max_size=300) | st.text(st.sampled_from("a[]()!<>\"' \\`*_\n"), max_size=300))
def test_any_text_is_shown(markdown: str) -> None:
    """Nothing is refused, and nothing becomes longer than its cells' separators make it."""
    assert len(plain_text(markdown)) <= 3 * len(markdown)


@pytest.mark.usefixtures("no_runaway")
@pytest.mark.parametrize(
    "unit",
    [
        "[",
        "](",
        "](a",
        "](a ",
        "`",
        "``` ",
        "*a",
        "**",
        "_a ",
        "\\",
        "> ",
        "|",
        "| ",
        "# ",
        " ",
        "<http://",
        "][",
        "<!--",
        "<a ",
        "[^1",
        "[^1]: ",
        "](\n",
        "[a]: b\n",
    ],
)
def test_a_megabyte_takes_no_time(unit: str) -> None:
    """A hostile text of a megabyte is read in a moment, and only its beginning."""
    assert len(plain_text(unit * (1_000_000 // len(unit)) + "x")) <= 3 * MOST_CHARS


@pytest.mark.usefixtures("no_runaway")
def test_brackets_within_brackets_take_no_time() -> None:
    """Also where each pair might be the name of a link."""
    nested = "[" * 20_000 + "]" * 20_000

    assert plain_text(f"[a]: b\n{nested}") == nested
