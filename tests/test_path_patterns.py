"""Patterns: which paths and URLs are taken, and how long that may take to say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.urls.path_patterns import DOCUMENTS, PathPatterns, UrlPatterns, is_hidden

TAKEN = [
    ("a name, at the root", "notes.md", "notes.md", True),
    ("a name, deep", "notes.md", "a/b/notes.md", True),
    ("an ending", "*.md", "a/b/notes.md", True),
    ("an ending in capitals", "*.md", "README.MD", True),
    ("another ending", "*.md", "notes.mdx", False),
    ("one character", "?.md", "a/b.md", True),
    ("not two", "?.md", "a/bc.md", False),
    ("a set", "[a-c].md", "b.md", True),
    ("not in the set", "[!a-c].md", "b.md", False),
    ("git's other negation", "[^a-c].md", "d.md", True),
    ("an escaped bracket", "[[]slug].md", "[slug].md", True),
    ("a star stays in its folder", "docs/*.md", "docs/a/b.md", False),
    ("a star in its folder", "docs/*.md", "docs/b.md", True),
    ("a slash inside anchors", "docs/*.md", "x/docs/b.md", False),
    ("a slash in front anchors", "/notes.md", "a/notes.md", False),
    ("a slash in front, at the root", "/notes.md", "notes.md", True),
    ("dot slash is the root too", "./notes.md", "a/notes.md", False),
    ("two stars, no folder between", "docs/**/x.md", "docs/x.md", True),
    ("two stars, many folders", "docs/**/x.md", "docs/a/b/c/x.md", True),
    ("two stars in front", "**/x.md", "x.md", True),
    ("two stars behind", "docs/**", "docs/a/b", True),
    ("two stars behind need something", "docs/**", "docs", False),
    ("two stars alone", "**", "a/b/c", True),
    ("two stars in a name are one", "a**b", "axxb", True),
    ("a folder", "docs/", "docs/a/b.md", True),
    ("a folder, deep", "docs/", "x/docs/b.md", True),
    ("a folder is no file", "docs/", "docs", False),
    ("a folder, anchored", "/docs/", "x/docs/b.md", False),
    ("a folder by its plain name", "docs", "docs/a/b.md", True),
    ("a folder by a path", "docs/api", "docs/api/x/y.md", True),
    ("a wildcard takes only what it matches", "docs/*", "docs/a/b.md", False),
    ("letters outside ASCII", "Ü*.md", "Über.md", True),
    ("bytes that are no UTF-8", "*.md", "a\udcff.md", True),
]


@pytest.mark.parametrize(("name", "pattern", "path", "expected"), TAKEN, ids=[row[0] for row in TAKEN])
def test_an_include_takes(name: str, pattern: str, path: str, expected: bool) -> None:
    """An include matches as .gitignore does, capitals apart."""
    assert PathPatterns([pattern]).matches(path) is expected


LEFT_OUT = [
    ("a folder", "node_modules", "a/node_modules/b/c.md", True),
    ("a folder by wildcard", "build*", "build-1/b.md", True),
    ("what is in a matched folder", "docs/*", "docs/a/b.md", True),
    ("a file", "*.tmp.md", "a/b.tmp.md", True),
    ("something else", "*.tmp.md", "a/b.md", False),
    ("folders only", "drafts/", "drafts", False),
]


@pytest.mark.parametrize(("name", "pattern", "path", "expected"), LEFT_OUT, ids=[row[0] for row in LEFT_OUT])
def test_an_exclude_leaves_out(name: str, pattern: str, path: str, expected: bool) -> None:
    """An exclude leaves out what it matches and all that lies in a folder it matches."""
    assert PathPatterns([], [pattern]).matches(path) is not expected


def test_exclude_wins() -> None:
    """What both lists match is not taken."""
    assert not PathPatterns(["*.md"], ["secret.md"]).matches("a/secret.md")
    assert PathPatterns(["*.md"], ["secret.md"]).matches("a/open.md")


def test_no_include_is_everything() -> None:
    """Without an include every file is taken."""
    assert PathPatterns().matches("any/thing.bin")


def test_documents_are_the_readable_ones() -> None:
    """The default takes documents and no pictures, in capitals too."""
    taken = PathPatterns(DOCUMENTS)

    assert all(taken.matches(f"a/b.{end}") for end in ("md", "rst", "txt", "adoc", "html", "HTM", "PDF", "docx", "csv"))
    assert not any(taken.matches(f"a/b.{end}") for end in ("png", "py", "zip", "mdx", ""))


PRUNED = [
    ("an excluded folder", [], ["drafts/"], "a/drafts", True),
    ("all that an exclude matches inside", [], ["a/*"], "a", True),
    ("one name of a letter is not all names", [], ["?"], "abc", False),
    ("a set is not all names", [], ["abc/[!x]*"], "abc", False),
    ("a folder beside", [], ["drafts/"], "a/b", False),
    ("an ending may be anywhere", ["*.md"], [], "a/b", False),
    ("another branch", ["docs/*.md"], [], "src", True),
    ("on the way", ["docs/api/*.md"], [], "docs", False),
    ("past it", ["docs/*.md"], [], "docs/a", True),
    ("under two stars", ["docs/**/*.md"], [], "docs/a/b", False),
    ("in a folder that is named", ["docs/"], [], "docs/a/b", False),
    ("the root", ["docs/"], ["*"], "", False),
    ("anything, when nothing is asked", [], [], "a", False),
]


@pytest.mark.parametrize(("name", "include", "exclude", "folder", "expected"), PRUNED, ids=[row[0] for row in PRUNED])
def test_a_folder_without_hope_is_pruned(
    name: str, include: list[str], exclude: list[str], folder: str, expected: bool
) -> None:
    """A folder is pruned when nothing in it can be taken, and only then."""
    assert PathPatterns(include, exclude).excludes_folder(folder) is expected


_PART = st.text("ab*?", min_size=1, max_size=4)
_PATTERN = st.lists(_PART | st.just("**"), min_size=1, max_size=4).map("/".join)
_PATH = st.lists(st.text("ab", min_size=1, max_size=3), min_size=2, max_size=5).map("/".join)


@given(st.lists(_PATTERN, max_size=3), st.lists(_PATTERN, max_size=3), _PATH)
def test_pruning_loses_nothing(include: list[str], exclude: list[str], path: str) -> None:
    """A file that is taken lies in no folder that is pruned."""
    patterns = PathPatterns(include, exclude)
    folders = [path.rsplit("/", up)[0] for up in range(1, path.count("/") + 1)]

    assert not (patterns.matches(path) and any(patterns.excludes_folder(folder) for folder in folders))


BAD = ["", "  ", "/", "//", "[abc", "a[b/c]d", "[]", "a\\b", "!x", "a\0b", "../x", "a/../b", "x" * 501]


@pytest.mark.parametrize("pattern", BAD)
def test_a_bad_pattern_is_a_sentence(pattern: str) -> None:
    """A pattern with no or two meanings is refused, and the sentence shows it."""
    with pytest.raises(ValueError, match="the pattern '"):
        PathPatterns([pattern])


def test_only_spelt_names_are_named() -> None:
    """`.github/**` names a hidden folder; `*` and `**` match it by the way and do not."""
    assert PathPatterns([".github/**"]).spells_out(".github")
    assert PathPatterns(["docs/.well-known/*"]).spells_out(".well-known")
    assert PathPatterns([".*"]).spells_out(".env")
    assert not PathPatterns(["*", "**", "*.md", "?git"]).spells_out(".git")
    assert [is_hidden(name) for name in (".git", "node_modules", "__pycache__", "docs")] == [True, True, True, False]


HOSTILE = [
    ("many stars in a name", "*a" * 200 + "b", "a" * 4_000),
    ("many names after two stars", "**/" + "a/" * 200 + "b", "a/" * 2_000 + "c"),
    ("many double stars", "**/a/" * 80 + "b", "a/" * 2_000 + "c"),
    ("stars everywhere", "**/*a*a*a*b/" * 40, "aaaaaaaaaaaaaaa/" * 250 + "c"),
]


@pytest.mark.usefixtures("no_runaway")
@pytest.mark.parametrize(("name", "pattern", "path"), HOSTILE, ids=[row[0] for row in HOSTILE])
def test_hostile_patterns_are_quick(name: str, pattern: str, path: str) -> None:
    """No pattern and path within their limits take seconds; the naive matchers take years."""
    assert not PathPatterns([pattern]).matches(path)
    assert not UrlPatterns([pattern]).matches(f"https://example.org/{path}")


URLS = [
    ("a path", "/docs/*", "https://example.org/docs/a/b", True),
    ("another path", "/docs/*", "https://example.org/blog/a", False),
    ("a path is from the root", "/docs/*", "https://example.org/v1/docs/a", False),
    ("a name anywhere", "*.pdf", "https://example.org/a/b.pdf", True),
    ("a name with a query behind", "*.pdf", "https://example.org/a/b.pdf?dl=1", True),
    ("a folder with all below", "/docs/", "https://example.org/docs/a/b", True),
    ("a folder itself", "/docs/", "https://example.org/docs", True),
    ("no half names", "/docs/", "https://example.org/docs-old", False),
    ("a plain path with all below", "/docs", "https://example.org/docs/a", True),
    ("a plain path, no half names", "/docs", "https://example.org/docs-old", False),
    ("the query", "*?print=*", "https://example.org/a?print=1", True),
    ("the query alone", "?print=1", "https://example.org/a?print=1", True),
    ("the whole URL", "https://docs.example.org/*", "https://docs.example.org/a", True),
    ("any scheme, any host", "*://*.Example.org/*", "https://docs.example.org/a", True),
    ("another host", "https://docs.example.org/*", "https://www.example.org/a", False),
    ("a host alone", "https://Docs.example.org", "https://docs.example.org/a", True),
    ("capitals matter in a path", "/Docs/*", "https://example.org/docs/a", False),
    ("letters outside ASCII", "/über/*", "https://example.org/%C3%BCber/uns", True),
    ("no web address", "*", "mailto:someone@example.org", False),
]


@pytest.mark.parametrize(("name", "pattern", "url", "expected"), URLS, ids=[row[0] for row in URLS])
def test_url_patterns(name: str, pattern: str, url: str, expected: bool) -> None:
    """A URL pattern is a glob over path and query, or over the whole URL."""
    assert UrlPatterns([pattern]).matches(url) is expected


def test_no_url_pattern_matches_nothing() -> None:
    """A list without patterns is false and matches no URL."""
    assert not UrlPatterns([])
    assert not UrlPatterns([]).matches("https://example.org/a")
