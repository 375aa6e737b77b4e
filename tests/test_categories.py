"""Category names and feeds.toml."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import FeedFileError
from core.feeds.category_names import category_slug
from core.feeds.feed_toml import parse_toml


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("jobs_report", "jobs_report"),
        ("News/World", "news_world"),
        (" Économie & Énergie ", "economie_energie"),
        ("a:b*c?[d]", "a_b_c_d"),
        ("half-life", "half-life"),
        ("ﬁnance", "finance"),
    ],
)
def test_slug(name: str, expected: str) -> None:
    """Names become lower-case words joined by underscores."""
    assert category_slug(name) == expected


@given(st.text())
def test_slugs_fit_into_keys(name: str) -> None:
    """Any name gives a slug of safe characters, never an empty one, and a slug is its own slug."""
    slug = category_slug(name)
    assert re.fullmatch(r"[a-z0-9_-]+", slug)
    assert category_slug(slug) == slug


def test_names_without_latin_letters_stay_apart() -> None:
    """Two names that leave nothing behind still give two categories."""
    assert category_slug("日本") != category_slug("中国")


def test_reads_toml() -> None:
    """Categories keep their order, names become slugs, repeats are dropped."""
    text = '[categories]\nTech = ["https://a.example/1", "https://a.example/1", " https://a.example/2 "]\n"tech" = []\n'
    assert parse_toml(text).categories == {"tech": ["https://a.example/1", "https://a.example/2"]}


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("broken", "[categories", "not valid TOML"),
        ("no table", "x = 1", r"no \[categories\] table"),
        ("no table but a list", "categories = []", r"no \[categories\] table"),
        ("no list", '[categories]\nnews = "https://a.example"', "categories.news must be a list"),
        ("no URL", "[categories]\nnews = [7]", "categories.news lists 7"),
        ("no http", '[categories]\nnews = ["file:///etc/passwd"]', "categories.news lists 'file"),
        ("nested", "[categories.news]\nx = []", "categories.news must be a list"),
    ],
)
def test_names_the_wrong_key(name: str, text: str, sentence: str) -> None:
    """A bad file is refused with a sentence that names the key."""
    with pytest.raises(FeedFileError, match=sentence):
        parse_toml(text)
