"""The extractor's tree as blocks: nothing lost, structure kept, words that look like structure escaped."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from core.pages.text_blocks import (
    TextBlockKind,
    blocks_to_markdown,
    blocks_to_text,
    limit_blocks,
    lines_to_blocks,
    text_to_blocks,
)
from core.pages.tree_to_markdown import tree_to_blocks

TAGS = ["p", "head", "list", "item", "quote", "code", "table", "row", "cell", "lb", "hi", "div", "ref", "del"]


def of(inside: str) -> list[Any]:
    return tree_to_blocks(etree.fromstring(f"<body>{inside}</body>"))


@pytest.mark.parametrize(
    ("name", "inside", "expected_markdown", "expected_text"),
    [
        ("paragraph", "<p>One  two\n three</p>", "One two three", "One two three"),
        ("inline", "<p>Hyper<hi>link</hi>ed</p>", "Hyperlinked", "Hyperlinked"),
        ("line break", "<p>One<lb/>two</p>", "One two", "One two"),
        ("two line breaks", "<p>One<lb/><lb/>two</p>", "One\n\ntwo", "One\n\ntwo"),
        ("loose text", "One<p>Two</p>three", "One\n\nTwo\n\nthree", "One\n\nTwo\n\nthree"),
        ("heading", '<head rend="h2">A</head>', "## A", "A"),
        ("heading with a link to itself", '<head rend="h4">A ¶</head>', "#### A", "A"),
        ("heading with a wiki's tool", '<head rend="h2">A[edit]</head>', "## A", "A"),
        ("list", '<list rend="ul"><item>a</item><item>b</item></list>', "- a\n- b", "a\nb"),
        ("numbers", '<list rend="ol"><item>a</item><item><p>b</p></item></list>', "1. a\n2. b", "a\nb"),
        ("inner list", "<list><item>a<list><item>b</item></list></item></list>", "- a\n  - b", "a\nb"),
        ("code", "<code>a\n  b</code>", "```\na\n  b\n```", "a\n  b"),
        ("code with a fence", "<code>```\nb</code>", "````\n```\nb\n````", "```\nb"),
        ("code in a sentence", "<p>Call <code>f()</code> now</p>", "Call `f()` now", "Call f() now"),
        ("quote", "<quote><p>a</p><p>b</p></quote>", "> a\n\n> b", "a\n\nb"),
        (
            "table",
            '<table><row><cell role="head">a</cell><cell>b</cell></row><row><cell>1|2</cell></row></table>',
            "| a | b |\n| --- | --- |\n| 1\\|2 |  |",
            "a | b\n1|2",
        ),
        ("looks like a heading", "<p># a</p>", "\\# a", "# a"),
        ("looks like a list", "<p>- a</p>", "\\- a", "- a"),
        ("looks like a numbered list", "<p>1985. A year.</p>", "1985\\. A year.", "1985. A year."),
        ("looks like HTML", "<p>&lt;b&gt; 1 &lt; 2</p>", "\\<b> 1 < 2", "<b> 1 < 2"),
        ("looks like a link", "<p>[a](javascript:b)</p>", "[a]\\(javascript:b)", "[a](javascript:b)"),
        ("nothing", "<p> </p><list/><table/><code/>", "", ""),
    ],
)
def test_renders(name: str, inside: str, expected_markdown: str, expected_text: str) -> None:
    """Each kind of element in both forms."""
    found = of(inside)
    assert (blocks_to_markdown(found), blocks_to_text(found)) == (expected_markdown, expected_text)


def test_kinds() -> None:
    """Every block knows what it is."""
    found = of("<p>a</p><head>b</head><list><item>c</item></list><code>d</code><quote>e</quote>")
    assert [block.kind.value for block in found] == ["paragraph", "heading", "list", "code", "quote"]
    assert [block.kind for block in lines_to_blocks(["a", "b"], frozenset(("b",)))] == [
        TextBlockKind.LINE,
        TextBlockKind.PARAGRAPH,
    ]


def test_a_text_without_end_is_cut() -> None:
    """The blocks stay within their bound, the last one cut."""
    found = limit_blocks([*text_to_blocks("a" * 1_500_000), *text_to_blocks("b" * 1_500_000), *text_to_blocks("c")])
    assert [len(block.text) for block in found] == [1_500_000, 500_000]


texts = st.text(alphabet="ab \n<|#-", max_size=6)
trees = st.recursive(
    st.tuples(st.sampled_from(TAGS), texts, st.just(()), texts),
    lambda children: st.tuples(st.sampled_from(TAGS), texts, st.lists(children, max_size=4), texts),
    max_leaves=15,
)


def grow(tree: Any, parent: etree._Element) -> None:
    tag, text, children, tail = tree
    element = etree.SubElement(parent, tag)
    element.text, element.tail = text, tail
    for child in children:
        grow(child, element)


@given(trees)
def test_no_word_is_lost(tree: Any) -> None:
    """Whatever the tree, its letters are those of the plain text, each once."""
    body = etree.Element("body")
    grow(tree, body)

    def letters(text: str) -> list[str]:
        return sorted(char for char in text if not char.isspace() and char not in "|#")

    assert letters(blocks_to_text(tree_to_blocks(body))) == letters("".join(body.itertext()))
