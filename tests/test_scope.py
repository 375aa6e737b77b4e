"""What belongs to a web source."""

from __future__ import annotations

import pytest

from core.urls.scope import OUT_OF_SCOPE, Judgement, Scope, ScopeKind

DOCS = "https://example.org/docs/"


@pytest.mark.parametrize(
    ("root", "inside", "outside"),
    [
        ("https://e.org/docs/", ["/docs/a", "/docs/a/b?c=1", "/docs"], ["/", "/docs2", "/docsy/a", "/blog"]),
        ("https://e.org/docs", ["/docs", "/docs/", "/docs/a"], ["/", "/docs2", "/docs.html"]),
        ("https://e.org/docs/intro.html", ["/docs/", "/docs/a", "/docs/b/c"], ["/", "/blog/intro.html"]),
        ("https://e.org/v1.2", ["/v1.2", "/v1.2/a"], ["/v1.3/a", "/a"]),
        ("https://e.org/index.php?id=3", ["/", "/a", "/b/c"], []),
        ("https://e.org", ["/", "/a", "/b/c"], []),
        ("https://e.org/~me/", ["/~me/a", "/%7Eme/a", "/%7eme/"], ["/%7Eyou/"]),
    ],
)
def test_subpages(root: str, inside: list[str], outside: list[str]) -> None:
    """The root's folder and all below it."""
    scope = Scope(root, "subpages")
    assert [scope.rejection_reason(f"https://e.org{path}", 1) for path in inside] == [""] * len(inside)
    assert [scope.rejection_reason(f"https://e.org{path}", 1) for path in outside] == ["outside subpages"] * len(
        outside
    )


@pytest.mark.parametrize(
    ("kind", "url", "reason"),
    [
        ("subpages", "http://example.org/docs/a", ""),
        ("subpages", "https://example.org:8443/docs/a", "outside subpages"),
        ("subpages", "https://www.example.org/docs/a", "outside subpages"),
        ("host", "https://example.org/blog", ""),
        ("host", "http://example.org/blog", ""),
        ("host", "https://example.org:8443/blog", "other host"),
        ("host", "https://www.example.org/blog", "other host"),
        ("host", "https://example.org.evil.net/docs/", "other host"),
        ("host", "https://evil.net/?https://example.org/docs/", "other host"),
        ("domain", "https://www.example.org/blog", ""),
        ("domain", "https://a.b.example.org:8443/blog", ""),
        ("domain", "https://evil-example.org/", "other domain"),
        ("domain", "https://example.com/", "other domain"),
        ("host", "mailto:me@example.org", "no web address"),
        ("host", "", "no web address"),
    ],
)
def test_reach(kind: str, url: str, reason: str) -> None:
    """http and https are one site; other ports, `www.` and strangers with similar names are not."""
    assert Scope(DOCS, kind).rejection_reason(url, 1) == reason


def test_platforms_have_many_owners() -> None:
    """Neighbours on github.io are no subdomains of one another."""
    assert Scope("https://one.github.io/", "domain").rejection_reason("https://two.github.io/", 1) == "other domain"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/a.jpg", "no document"),
        ("/a.TAR.GZ", "no document"),
        ("/a.zip?download=1", "no document"),
        ("/site.css", "no document"),
        ("/assets/app.js", "no document"),
        ("/x/jquery.min.js", "no document"),
        ("/fonts/a.woff2", "no document"),
        ("/setup.exe", "no document"),
        ("/wiki/Node.js", ""),
        ("/wiki/File:Weir.jpg", ""),
        ("/wiki/File%3AWeir.jpg", ""),
        ("/a.jpg/view", ""),
        ("/v1.2", ""),
        ("/sites/example.com", ""),
        ("/a.pdf", ""),
        ("/a.docx", ""),
        ("/.zip/", ""),
        ("/a.html", ""),
        ("/feed.xml", ""),
    ],
)
def test_endings(path: str, reason: str) -> None:
    """What can have no text is not asked for; what only looks so is."""
    assert Scope("https://example.org/", "host").rejection_reason(f"https://example.org{path}", 1) == reason


def test_patterns_and_depth_say_which_of_them_spoke() -> None:
    """Excluded, not included and too deep are different answers."""
    scope = Scope(DOCS, "host", include=["/docs/*", "/blog/*"], exclude=["/docs/old/*"], max_depth=2)
    assert scope.rejection_reason("https://example.org/docs/a", 2) == ""
    assert scope.rejection_reason("https://example.org/docs/old/a", 1) == "excluded"
    assert scope.rejection_reason("https://example.org/shop", 1) == "not included"
    assert scope.rejection_reason("https://example.org/docs/a", 3) == "too deep"


def test_what_nobody_asked_for_is_not_called_a_trap() -> None:
    """An excluded trap is excluded: the person who excluded it knows."""
    scope = Scope(DOCS, "host", exclude=["/calendar/*"], max_depth=3)
    assert scope.rejection_reason("https://example.org/calendar/a;jsessionid=1", 1) == "excluded"
    assert scope.rejection_reason("https://example.org/a;jsessionid=1", 4) == "too deep"


def test_traps_are_refused_inside_only() -> None:
    """A trap of the site has its own reason; a trap elsewhere is just elsewhere."""
    scope = Scope(DOCS, "subpages")
    assert scope.rejection_reason("https://example.org/docs/a;jsessionid=1", 1) == "a session id in the path"
    assert scope.rejection_reason("https://example.org/blog/a;jsessionid=1", 1) == "outside subpages"
    assert "a session id in the path" not in OUT_OF_SCOPE
    assert {"excluded", "not included", "too deep", "other host"} <= OUT_OF_SCOPE


@pytest.mark.parametrize("url", [DOCS, "https://example.org/docs", "http://example.org/docs/", f"{DOCS}#top"])
def test_the_root_is_always_admitted(url: str) -> None:
    """Whatever the patterns and the depth say, and in any spelling."""
    assert Scope(DOCS, "subpages", ["/x/*"], ["*"], 0).rejection_reason(url, 99) == ""


@pytest.mark.parametrize("root", ["https://e.org/a;jsessionid=1", "https://e.org/a.zip", "https://e.org/?a=1&a=1&a=1"])
def test_even_an_odd_root_is_admitted(root: str) -> None:
    """A person named it."""
    assert Scope(root, "host").rejection_reason(root, 0) == ""


def test_calendars_are_judged_by_the_time_of_the_run() -> None:
    """Given a time, a month years ahead is a trap."""
    url = "https://example.org/docs/2031/05"
    assert Scope(DOCS, now=1_763_000_000.0).rejection_reason(url, 1) == "a calendar far from today"
    assert Scope(DOCS).rejection_reason(url, 1) == ""


def test_the_version_follows_the_configuration() -> None:
    """Each part changes it, the time of the run does not, and a clean spelling of the root is the root."""
    versions = {
        Scope(DOCS).version,
        Scope(f"{DOCS}a/").version,
        Scope(DOCS, "host").version,
        Scope(DOCS, include=["/a"]).version,
        Scope(DOCS, exclude=["/a"]).version,
        Scope(DOCS, max_depth=3).version,
    }
    assert len(versions) == 6
    assert Scope("HTTPS://Example.org:443/docs/#x", ScopeKind.SUBPAGES, now=5.0).version == Scope(DOCS).version


@pytest.mark.parametrize(
    ("root", "kind"), [("", "host"), ("ftp://e.org/", "host"), ("e.org", "host"), (DOCS, "planet")]
)
def test_what_cannot_be_used_is_told(root: str, kind: str) -> None:
    """A root that is not a web address, or a kind nobody knows, is an error at once."""
    with pytest.raises(ValueError, match=r"root of a web source|planet"):
        Scope(root, kind)


@pytest.mark.parametrize(
    ("url", "depth", "expected"),
    [
        ("https://example.org/docs/a", 1, Judgement()),
        ("https://example.org/docs/old/a", 1, Judgement("excluded", "exclude /docs/old/*")),
        ("https://example.org/docs/a", 3, Judgement("too deep", "max_depth 2")),
        ("https://example.org/blog/a", 1, Judgement("outside subpages", "scope subpages of https://example.org/docs/")),
        ("https://www.example.org/docs/a", 1, Judgement("outside subpages", "scope subpages of https://example.org/docs/")),
        ("https://example.org/docs/a.zip", 1, Judgement("no document", "names that end in .zip have no text")),
        ("https://example.org/docs/x/x/x/x/x", 1, Judgement("the same path segments again and again", "spider trap")),
        ("https://another.example/docs/a", 1, None),
        ("mailto:someone@example.org", 1, None),
    ],
)  # fmt: skip
def test_judgement_names_the_rule(url: str, depth: int, expected: Judgement | None) -> None:
    """The part of the configuration that decides, for people; nothing to say about other sites."""
    scope = Scope("https://example.org/docs/", exclude=["/draft", "/docs/old/*"], max_depth=2)
    judgement = scope.judge(url, depth)

    assert (judgement is None) == (expected is None)
    if judgement and expected:
        assert judgement.reason == expected.reason == scope.rejection_reason(url, depth)
        assert judgement.rule.startswith(expected.rule)
