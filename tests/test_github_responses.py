"""GitHub's words, as tables."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from core.models import Ref, RejectedUrl
from core.sources import github_names, github_responses
from core.sources.github_names import Repository
from core.sources.github_responses import BranchFilter, TreeEntry
from core.urls.path_patterns import DOCUMENTS, PathPatterns
from tests.github_server import Branch

WEB = "https://github.com"
SHA = "0123456789abcdef0123456789abcdef01234567"
NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("text", "web", "expected"),
    [
        ("o/r", WEB, Repository("o", "r")),
        ("  octo-org/some.repo_x ", WEB, Repository("octo-org", "some.repo_x")),
        ("o/r/", WEB, Repository("o", "r")),
        ("o/r.git", WEB, Repository("o", "r")),
        ("o/.github", WEB, Repository("o", ".github")),
        ("o_company/r", WEB, Repository("o_company", "r")),
        ("o/r/tree/v1.x", WEB, Repository("o", "r", "v1.x")),
        ("https://github.com/o/r", WEB, Repository("o", "r")),
        ("https://github.com/o/r.git", WEB, Repository("o", "r")),
        ("http://www.GitHub.com/o/r/?tab=readme#top", WEB, Repository("o", "r")),
        ("https://github.com/o/r/tree/feature/%C3%BC-1", WEB, Repository("o", "r", "feature/ü-1")),
        ("https://git.example:8443/hub/o/r", "https://git.example:8443/hub/", Repository("o", "r")),
    ],
)
def test_repositories(text: str, web: str, expected: Repository) -> None:
    """A name or a URL, as people copy them."""
    assert github_names.parse_repository(text, web) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "o", "o/", "/r", "o//r", "o/..", "o/.", "../r", "o/r s", "-o/r", "o/r/blob/main/a.md", "o/r/wiki"),
        *("o/r/tree/", "o/r/tree/a..b", "o/r/tree/.x", "o/r/tree/a b", "o/r/tree/x.lock", "o/ü"),
        *(
            "https://gitlab.com/o/r",
            "https://github.com.evil.example/o/r",
            "https://github.com/",
            "ftp://github.com/o/r",
        ),
        *("https://github.com:8443/o/r", "git@github.com:o/r.git", "https://github.com/o/r/tree/%2e%2e/x"),
    ],
)
def test_no_repositories(text: str) -> None:
    """What names no repository is turned away with a sentence."""
    found = github_names.parse_repository(text, WEB)

    assert isinstance(found, RejectedUrl)
    assert found.reason.endswith(".")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((name, True) for name in ("main", "a/b", "v1.0", "ü", "a@b", "a#b", "a%b", SHA)),
        *((name, False) for name in ("", "/a", "a/", "a//b", "a..b", "a b", "a~1", "a^", "a:b", "a?b", "a*", "a[b")),
        *(
            (name, False)
            for name in ("a\\b", "@{u}", "a/.b", ".a", "a.", "a.lock", "a.lock/b", "@", "-a", "a\n", "a" * 256)
        ),
    ],
)
def test_branches(name: str, expected: bool) -> None:
    """As `git check-ref-format` has it."""
    assert github_names.is_branch(name) is expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [("https://GitHub.com/", "https://github.com"), ("https://ghe.example/api/v3/", "https://ghe.example/api/v3")],
)
def test_base_urls_are_cleaned(url: str, expected: str) -> None:
    """However the setting is written, the URLs that begin with it are clean."""
    assert github_names.base_url(url, "GITHUB_WEB_URL") == expected


@pytest.mark.parametrize(
    "url", ["", "github.com", "ftp://github.com", "https://u:p@github.com", "https://a.example/?x"]
)
def test_base_urls_that_cannot_be(url: str) -> None:
    """The sentence names the setting and not its value, which could hold a password."""
    with pytest.raises(ValueError, match=r"^GITHUB_API_URL is not a URL that others can begin with\.$"):
        github_names.base_url(url, "GITHUB_API_URL")


# ── trees ───────────────────────────────────────────────────────────────────────────────────────


def branch_filter(*include: str) -> BranchFilter:
    return BranchFilter(f"{WEB}/o/r/blob/main/", PathPatterns(include or DOCUMENTS), max_bytes=1_000)


def entry(path: str, mode: str = "100644", kind: str = "blob", size: int | None = 10) -> TreeEntry:
    return TreeEntry(path, mode, kind, SHA, size)


@pytest.mark.parametrize(
    ("path", "shown", "depth"),
    [
        ("README.md", "README.md", 0),
        ("docs/a/b.rst", "docs/a/b.rst", 2),
        ("a b.md", "a%20b.md", 0),
        ("über/ß.md", "%C3%BCber/%C3%9F.md", 1),
        ("c#.md", "c%23.md", 0),
        ("100%.md", "100%25.md", 0),
        ("%41.md", "%2541.md", 0),
        ("what?.md", "what%3F.md", 0),
        ("a\\b.md", "a%5Cb.md", 0),
        ("@x/(a)+'b'~!$&*,;=:.md", "@x/(a)+'b'~!$&*,;=:.md", 1),
        ('[a]{b}|^`<>".md', "%5Ba%5D%7Bb%7D%7C%5E%60%3C%3E%22.md", 0),
    ],
)
def test_files_have_the_urls_that_people_know(path: str, shown: str, depth: int) -> None:
    """Every name can be in a URL, and comes back out of it."""
    assert branch_filter().classify(entry(path), path) == Ref(f"{WEB}/o/r/blob/main/{shown}", depth=depth, version=SHA)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (entry("vendor/lib", "160000", "commit", None), "submodule"),
        (entry("a.md", "120000"), "symlink"),
        (entry("a.md", size=1_001), "too large"),
        (entry("a.md", "100000"), "no file"),
        (entry("docs/../a.md"), "path"),
        (entry("a" * 2_100 + ".md"), "too_long"),
    ],
)
def test_what_is_not_taken_and_why(given: TreeEntry, reason: str) -> None:
    """A word for each kind."""
    found = branch_filter().classify(given, given.path)

    assert isinstance(found, RejectedUrl)
    assert found.reason == reason


@pytest.mark.parametrize("given", [entry("docs", "040000", "tree"), entry("a.py"), entry("a.png", size=10_000)])
def test_what_nobody_asked_for_is_not_mentioned(given: TreeEntry) -> None:
    """Folders, and files that the patterns leave out."""
    assert branch_filter().classify(given, given.path) is None


ROW = {"path": "a", "mode": "100644", "type": "blob", "sha": SHA, "size": 1, "url": "x"}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"tree": [ROW], "truncated": False}, (TreeEntry("a", "100644", "blob", SHA, 1),)),
        ({"tree": [], "truncated": True, "sha": SHA}, ()),
        ({"tree": [ROW]}, None),
        ({"tree": [ROW | {"sha": "../x"}], "truncated": False}, None),
        ({"tree": [ROW | {"path": None}], "truncated": False}, None),
        ([], None),
    ],
)
def test_trees(body: object, expected: tuple[TreeEntry, ...] | None) -> None:
    """Read with types; one that does not say whether it is whole is none."""
    found = github_responses.parse_tree(json.dumps(body).encode())

    assert (found.tree if found else None) == expected


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b"[" * 100_000, b'{"tree": [{"path": "\xff"}], "truncated": false}']
)
def test_broken_answers(body: bytes) -> None:
    """Whatever comes, nothing is raised."""
    assert (
        github_responses.parse_tree(body),
        github_responses.parse_default_branch(body),
        github_responses.parse_commit(body),
    ) == (
        None,
        None,
        None,
    )


def test_small_answers() -> None:
    """A default branch must be a branch, and a sha a sha."""
    assert github_responses.parse_default_branch(b'{"default_branch": "trunk", "x": 1}') == "trunk"
    assert github_responses.parse_default_branch(b'{"default_branch": "../x"}') is None
    assert github_responses.parse_commit(f"{SHA}\n".encode()) == SHA
    assert github_responses.parse_commit(b"<html>") is None


def test_shas_are_gits(tmp_path: Path) -> None:
    """Blob shas, and the fake server's trees and commits, are what git itself says."""
    files = {"a.md": b"hello\n", "a/b.md": "ü".encode(), "a.b/c": b"", "a0": b"\0"}
    for name, content in files.items():
        if name != "a.md":
            (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(tmp_path), *words], capture_output=True, check=True, text=True)
        return done.stdout.strip()

    git("init", "-q")
    git("add", ".")
    branch = Branch({name: ("100644", content) for name, content in files.items()})

    assert branch.commits[branch.head()] == git("write-tree")
    assert github_responses.blob_sha(files["a/b.md"]) == git("hash-object", "a/b.md")
    assert github_responses.blob_sha(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"


# ── files ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("stated", "url", "body", "expected"),
    [
        ("text/plain; charset=utf-8", "x/a.md", b"a", "text/markdown; charset=utf-8"),
        ("text/plain; charset=utf-8", "x/A.MD", b"\xff", "text/markdown"),
        ("text/plain; charset=utf-8", "x/a.html", b"a", "text/html"),
        ("text/plain", "x/a.csv", b"a", "text/csv; charset=utf-8"),
        ("text/plain", "x.md/LICENSE", b"a", "text/plain; charset=utf-8"),
        ("application/octet-stream", "x/a.pdf", b"%PDF", "application/pdf"),
        ("application/octet-stream", "x/a.bin", b"a", "application/octet-stream"),
        ("", "x/a", b"a", "application/octet-stream"),
        ("application/vnd.github.raw+json; charset=utf-8", "x/a.md", b"a", "text/markdown; charset=utf-8"),
        ("image/png", "x/a.md", b"a", "image/png"),
    ],
)
def test_content_types(stated: str, url: str, body: bytes, expected: str) -> None:
    """By the name where the server says nothing; a charset only where it is true, and never over a page's own."""
    assert github_responses.content_type(stated, url, body) == expected


@pytest.mark.parametrize(("etag", "expected"), [(f'"{SHA}"', SHA), (f'W/"{SHA}"', SHA), (SHA, SHA), ("", "")])
def test_shas_come_back_from_etags(etag: str, expected: str) -> None:
    """Also when a proxy made them weak."""
    assert github_responses.sha_of_etag(etag) == expected


@pytest.mark.parametrize(
    ("name", "status", "headers", "body", "expected"),
    [
        ("nothing", 200, {}, b"", 0),
        ("plenty left", 200, {"x-ratelimit-remaining": "10", "x-ratelimit-reset": f"{NOW + 99:.0f}"}, b"", 0),
        ("the last one", 200, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{NOW + 99:.0f}"}, b"", 99),
        ("over", 403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{NOW + 99:.0f}"}, b"", 99),
        ("over, as 429", 429, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{NOW + 99:.0f}"}, b"", 99),
        ("reset has passed", 403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{NOW - 9:.0f}"}, b"", 60),
        ("reset has passed, fine", 200, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{NOW - 9:.0f}"}, b"", 0),
        ("no reset", 403, {"x-ratelimit-remaining": "0"}, b"", 60),
        ("odd reset", 403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "²" * 3}, b"", 60),
        ("a year", 403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{NOW + 3e7:.0f}"}, b"", 86_400),
        ("retry-after wins", 403, {"retry-after": "7", "x-ratelimit-remaining": "0"}, b"", 7),
        ("retry-after of a page", 200, {"retry-after": "7"}, b"", 0),
        ("secondary", 403, {"x-ratelimit-remaining": "10"}, b'{"message": "a Secondary rate limit"}', 60),
        ("429 alone", 429, {}, b"", 60),
        ("no limit at all", 403, {"x-ratelimit-remaining": "10"}, b"Resource not accessible", 0),
    ],
)
def test_limits(name: str, status: int, headers: dict[str, str], body: bytes, expected: float) -> None:
    """Both kinds of rate limit, by header or by word."""
    assert github_responses.limit_seconds(status, headers, body, NOW) == expected, name
