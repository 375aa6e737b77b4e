"""Titles without the site's name, authors without noise, descriptions."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from core.pages.metadata import MAX_TITLE_CHARS, MetadataElement, page_author, page_description, page_title
from tests.pages import head, json_ld, meta, titled

SITE = meta("og:site_name", "The Mill")
STORY = "Water at the wheel"
ABOUT_TAGS = "How <details> beats <div> in forms, if a<b and b>c"
MARKED = "Water <em>at</em> the wheel"
ALERT = "<script>alert(1)</script>"


def h1(text: str) -> MetadataElement:
    return MetadataElement("h1", {}, text)


@pytest.mark.parametrize(
    ("name", "elements", "expected"),
    [
        ("og", [meta("og:title", STORY), titled("Other")], STORY),
        ("og with the site", [meta("og:title", f"{STORY} | The Mill"), SITE], STORY),
        ("site first", [meta("og:title", f"The Mill: {STORY}"), SITE], STORY),
        ("domain", [titled(f"{STORY} - Mill")], STORY),
        ("domain with its ending", [titled(f"{STORY} – mill.example")], STORY),
        ("twitter", [meta("twitter:title", STORY), titled("Other")], STORY),
        ("Dublin Core", [meta("dc.title", STORY), meta("og:title", "Bait")], STORY),
        ("JSON-LD", [json_ld(f'{{"@type": "NewsArticle", "headline": "{STORY}"}}'), h1(STORY)], STORY),
        (
            "JSON-LD with a description",
            [json_ld('{"@type": "Article", "headline": "a monarchy"}'), titled(STORY)],
            STORY,
        ),
        ("the part that the headline repeats", [titled(f"News » {STORY} » 2025"), h1(STORY)], STORY),
        (
            "a short unknown last part",
            [titled(f"{STORY} in the old village | Somewhere")],
            f"{STORY} in the old village",
        ),
        ("a dash that belongs", [titled("Water - wheel")], "Water - wheel"),
        ("only a headline", [h1(f"  {STORY}\n ")], STORY),
        ("escaped twice", [meta("og:title", "Water &amp;amp; wheel")], "Water &amp; wheel"),
        ("tags inside", [meta("og:title", "Water <em>at</em> the wheel")], STORY),
        (
            "tags inside that only the headline lacks",
            [meta("og:title", MARKED), titled(MARKED), h1(STORY)],
            STORY,
        ),
        ("words that look like tags", [meta("og:title", ABOUT_TAGS)], ABOUT_TAGS),
        ("a script shown as words", [meta("og:title", ALERT), titled(ALERT), h1(ALERT)], ALERT),
        ("a headline about tags", [json_ld(json.dumps({"@type": "Article", "headline": ALERT})), h1(ALERT)], ALERT),
        ("nothing", [], ""),
    ],
)
def test_title(name: str, elements: list[MetadataElement], expected: str) -> None:
    """The story's own title, however the page states it."""
    assert page_title(head(*elements)) == expected


@pytest.mark.parametrize(
    ("name", "elements", "expected"),
    [
        ("meta", [meta("author", "By Ada Miller")], "Ada Miller"),
        ("several", [meta("author", "Ada Miller"), meta("author", "Ben Brook")], "Ada Miller, Ben Brook"),
        (
            "JSON-LD",
            [json_ld('{"@type": "Article", "author": [{"name": "Ada Miller"}, "Ben Brook"]}'), meta("author", "x y")],
            "Ada Miller, Ben Brook",
        ),
        ("an address is no name", [meta("article:author", "https://facebook.com/ada")], ""),
        ("the site is no author", [meta("author", "The Mill"), SITE], ""),
        ("words that look like tags", [meta("author", "<b>Ann</b>")], "<b>Ann</b>"),
        ("a link left by the template", [meta("author", '<a href="/ada">Ada Miller</a>')], "Ada Miller"),
        ("nothing", [], ""),
    ],
)
def test_author(name: str, elements: list[MetadataElement], expected: str) -> None:
    """People's names, joined by commas."""
    assert page_author(head(*elements)) == expected


@pytest.mark.parametrize(
    "byline",
    ["By Ada Miller", "By Ada Miller - Jan 6, 2025 8:02 pm", "Ada Miller January 6, 2025", "Ada Miller (editor)"],
)
def test_bylines(byline: str) -> None:
    """Where nothing better is stated, the name in a byline, without what stands behind it."""
    assert page_author(replace(head(meta("author", "a@b.example")), bylines=(byline,))) == "Ada Miller"


def test_description() -> None:
    """The page's own summary, one line."""
    assert page_description(head(meta("description", " About\n water "))) == "About water"
    assert page_description(head(json_ld('{"@type": "Article", "description": "About water"}'))) == "About water"


def test_a_title_of_any_length_is_cut() -> None:
    """A title of a megabyte is cut at a word, quickly."""
    title = page_title(head(titled("water - wheel | " * 50_000)))
    assert len(title) <= MAX_TITLE_CHARS
