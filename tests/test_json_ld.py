"""JSON-LD as publishers write it."""

from __future__ import annotations

import pytest

from core.pages import json_ld


@pytest.mark.parametrize(
    ("name", "script", "headline"),
    [
        ("plain", '{"@type": "NewsArticle", "headline": "A"}', "A"),
        ("list", '[{"@type": "Organization"}, {"@type": "BlogPosting", "headline": "A"}]', "A"),
        ("graph", '{"@graph": [{"@type": "WebPage", "headline": "B"}, {"@type": "Article", "headline": "A"}]}', "A"),
        ("several types", '{"@type": ["Thing", "Article"], "headline": ["A", "B"]}', "A"),
        ("main entity", '{"@type": "WebSite", "mainEntity": {"@type": "Article", "headline": "A"}}', "A"),
        ("comment around", '<!--\n{"@type": "Article", "headline": "A"}\n-->', "A"),
        ("CDATA around", '//<![CDATA[\n{"@type": "Article", "headline": "A"};\n//]]>', "A"),
        ("line feed in a string", '{"@type": "Article", "headline": "A\nB"}', "A B"),
        ("broken", '{"@type": "Article", "headline": "A"', ""),
        ("no article", '{"@type": "Organization", "headline": "A"}', ""),
        ("wrong types", '{"@type": 7, "headline": {"a": 1}}', ""),
        ("too deep", "[" * 100_000, ""),
        ("a number of 5,000 digits", f'{{"@type": "Article", "headline": {"9" * 5000}}}', ""),
        ("empty", "", ""),
        ("null", "null", ""),
    ],
)
def test_article(name: str, script: str, headline: str) -> None:
    """The article is found wherever it stands; what cannot be read is as if it were not there."""
    assert json_ld.text(json_ld.article([script]), "headline") == headline


def test_people_and_pictures() -> None:
    """Names and addresses in all their shapes."""
    people = '"author": ["A", {"name": "B"}, {"name": ["C"]}, 7]'
    pictures = '"image": ["/1", {"url": ["/2"]}, 7]'
    thing = json_ld.article([f'{{"@type": "Article", {people}, {pictures}}}'])
    assert json_ld.names(thing, "author") == ["A", "B", "C"]
    assert json_ld.urls(thing, "image") == ["/1", "/2"]
