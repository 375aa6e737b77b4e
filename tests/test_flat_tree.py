"""A tree read into lists."""

from __future__ import annotations

import pytest

from core.pages.flat_tree import FlatTree, SubtreeSum, parse_attributes
from core.pages.lxml_page import parse_html


def flat(html: str) -> FlatTree:
    root = parse_html(html)
    assert root is not None
    return FlatTree(root)


def test_the_lists_have_the_tree_in_document_order() -> None:
    """Numbers count the elements as they begin; a subtree ends before `ends`."""
    tree = flat("<body><div><p>one<b>two</b>three</p>four</div><hr>five")

    assert tree.tags == ["html", "body", "div", "p", "b", "hr"]
    assert tree.parents == [-1, 0, 1, 2, 3, 1]
    assert tree.ends == [6, 6, 5, 5, 5, 6]
    assert (tree.texts[3], tree.tails[4], tree.tails[3], tree.tails[5]) == ("one", "three", "four", "five")
    assert tree.children(1) == [2, 5]
    assert tree.text_of(2) == "onetwothreefour"


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>1 &lt; 2 &amp;amp; 3 &gt; 2</p>", "1 < 2 &amp; 3 > 2"),
        ("<p>bell&#7;less</p>", "bellless"),
        ("<p>one&#13;two\u00a0\U0001f600</p>", "one two \U0001f600"),
        ('<p>&lt;a href="x"&gt;</p>', '<a href="x">'),
        ("<p><a<b>odd names</p>", "odd names"),
        ("<p>]]&gt; &lt;![CDATA[ x</p>", "]]> <![CDATA[ x"),
        ("<p>one<br>two</p>", "onetwo"),
    ],
)
def test_text_is_what_the_page_says(html: str, text: str) -> None:
    """What is written for the pattern is read back; only control characters are lost."""
    assert flat(html).text_of(0) == text


def test_attributes_survive_any_spelling() -> None:
    """Quotes, tags and line breaks in a value end nothing; links to other pages are left out."""
    tree = flat(
        "<p title='a \"b\" > <c> &amp;\n d' hidden class=x b\"c>text</p><a href=/x rel=y>z</a><a href='#x'>z</a>"
    )
    paragraph, away, here = (parse_attributes(tree.raw_attributes[tree.tags.index("p") + step]) for step in range(3))

    assert paragraph["title"] == 'a "b" > <c> &\n d'
    assert (paragraph["hidden"], paragraph["class"]) == ("", "x")
    assert (away, here) == ({"rel": "y"}, {"href": "#x"})


def test_sums_are_of_subtrees() -> None:
    """The value of an element counts for itself and everything around it."""
    tree = flat("<body><div><p>one</p></div><p>two</p>")
    total = SubtreeSum(tree, [1] * tree.size)

    assert [total[number] for number in range(tree.size)] == [5, 4, 2, 1, 1]
