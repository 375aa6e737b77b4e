"""Domains: what a person may write, what they are told, and which sources come out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.sources.io.domain_file import parse_domain, parse_quick
from core.sources.source_record import DomainFileError, SourceRecord
from core.urls.path_patterns import DOCUMENTS

FOLDER = "/srv/domains/DOMAIN01"
WEB = {"url": "https://docs.example.org/guide/"}


def read(home: str | None = "/home/me", **fields: Any) -> Any:
    return parse_domain(json.dumps(fields), FOLDER, home)


def test_a_full_domain() -> None:
    """Every field that is documented is kept, and each source has a name, a kind and a JSON configuration."""
    domain = read(
        id="kb",
        name="Knowledge",
        description="All we know",
        web_sources=[
            WEB
            | {
                "id": "guide",
                "scope": "host",
                "include": ["/guide/*"],
                "exclude": ["*.zip"],
                "max_depth": 3,
                "max_pages": 50,
                "interval_seconds": 3600,
                "gap_seconds": 0,
                "sitemap": False,
            }
        ],
        folder_sources=[{"path": "/data/docs", "include": ["*.md"], "exclude": ["drafts/"], "interval_seconds": 60.5}],
        github_sources=[
            {"repo": "octo/Hello.World", "branch": "release/1.x", "include": [], "wiki": True, "gap_seconds": 1.5}
        ],
    )
    web, folder, github, wiki = domain.sources("https://git.example.org/")

    assert (domain.id, domain.name, domain.description) == ("kb", "Knowledge", "All we know")
    assert [(one.sid, one.kind, one.domain) for one in (web, folder, github, wiki)] == [
        ("kb.guide", "web", "kb"),
        ("kb.docs", "folder", "kb"),
        ("kb.octo-hello-world", "github", "kb"),
        ("kb.octo-hello-world-wiki", "web", "kb"),
    ]
    assert web.config == {
        "url": "https://docs.example.org/guide/",
        "scope": "host",
        "include": ["/guide/*"],
        "exclude": ["*.zip"],
        "max_depth": 3,
        "max_pages": 50,
        "interval_seconds": 3600,
        "gap_seconds": 0,
        "sitemap": False,
    }
    assert folder.config == {
        "path": "/data/docs",
        "include": ["*.md"],
        "exclude": ["drafts/"],
        "interval_seconds": 60.5,
    }
    assert github.config == {
        "repo": "octo/Hello.World",
        "branch": "release/1.x",
        "include": [],
        "exclude": [],
        "wiki": True,
        "interval_seconds": None,
        "gap_seconds": 1.5,
    }
    assert (web.gap_seconds, web.hosts) == (0, ("docs.example.org", "www.docs.example.org"))
    assert (wiki.gap_seconds, wiki.hosts) == (1.5, ("git.example.org", "www.git.example.org"))
    assert (folder.gap_seconds, folder.hosts, github.hosts) == (None, (), ())
    assert (wiki.config["url"], wiki.config["scope"]) == ("https://git.example.org/octo/Hello.World/wiki", "subpages")


def test_defaults() -> None:
    """A URL, a path or a repository is enough; folders and repositories take documents."""
    domain = read(web_sources=[WEB], folder_sources=[{"path": "x"}], github_sources=[{"repo": "o/r"}])
    web, folder, github = domain.sources()

    assert domain.name == domain.id
    assert web.config == {
        "url": WEB["url"],
        "scope": "subpages",
        "include": [],
        "exclude": [],
        "max_depth": 10,
        "max_pages": 10_000,
        "interval_seconds": None,
        "gap_seconds": None,
        "sitemap": True,
    }
    assert folder.config["include"] == github.config["include"] == list(DOCUMENTS)
    assert (github.config["branch"], github.config["wiki"]) == ("", False)


def test_a_domain_without_id_is_called_like_its_folder() -> None:
    """As the folder is written, if that can be an id; else in lower case, with dashes."""
    other = parse_domain(json.dumps({"web_sources": [WEB]}), "/srv/My Docs/")

    assert (read(web_sources=[WEB]).id, other.id) == ("DOMAIN01", "my-docs")


def test_ids_keep_their_case() -> None:
    """Of a domain and of a source."""
    [source] = read(id="DOMAIN01", web_sources=[WEB | {"id": "Docs_Main"}]).sources()

    assert (source.sid, source.domain) == ("DOMAIN01.Docs_Main", "DOMAIN01")


def test_vector_store_of_a_domain() -> None:
    """Its name and id are kept as they are; without a word the index is Freshet's own."""
    plain = read(web_sources=[WEB])
    other = read(web_sources=[WEB], vector_store_name="My store", vector_store_id="vs_abc123", index="openai")

    assert (plain.vector_store_name, plain.vector_store_id, plain.index) == ("", "", "redis")
    assert (other.vector_store_name, other.vector_store_id, other.index) == ("My store", "vs_abc123", "openai")


def test_domain_id_and_source_id_are_understood() -> None:
    """They are other names of `id`, of the domain and of a source."""
    domain = read(domain_id="kb", web_sources=[WEB | {"source_id": "pages"}])

    assert [one.sid for one in domain.sources()] == ["kb.pages"]


PATHS = [
    ("absolute", "/data/docs/", "/data/docs"),
    ("relative", "docs", f"{FOLDER}/docs"),
    ("dots", "../x/./docs", "/srv/domains/x/docs"),
    ("home", "~/docs", "/home/me/docs"),
    ("home alone", "~", "/home/me"),
    ("uri", "file:///data/my%20docs", "/data/my docs"),
    ("windows", "C:\\Docs", "C:/Docs"),
]


@pytest.mark.parametrize(("name", "path", "expected"), PATHS, ids=[row[0] for row in PATHS])
def test_folders_are_absolute(name: str, path: str, expected: str) -> None:
    """A path is seen from the folder of domain.json, and `~` is home."""
    assert read(folder_sources=[{"path": path}]).sources()[0].config["path"] == expected


def test_derived_names_are_unique() -> None:
    """Sources without an id get one that nobody else has."""
    domain = read(
        id="kb",
        web_sources=[WEB, WEB | {"scope": "host"}, {"url": "https://www.example.org/"}, {"url": "https://例え.jp/"}],
        folder_sources=[{"path": "/a/docs"}, {"path": "/b/docs"}, {"path": "/c", "id": "docs-2"}, {"path": "/"}],
        github_sources=[{"repo": "o/r", "wiki": True}, {"repo": "o/r", "branch": "x", "wiki": True, "id": "o-r"}],
    )

    assert [one.sid.removeprefix("kb.") for one in domain.sources()] == [
        *("docs-example-org-guide", "docs-example-org-guide-2", "example-org", "xn-r8jz45g-jp"),
        *("docs", "docs-3", "docs-2", "source", "o-r-2", "o-r-2-wiki", "o-r", "o-r-wiki"),
    ]


def test_round_trip() -> None:
    """A source comes back from its JSON as it was."""
    for source in read(web_sources=[WEB], github_sources=[{"repo": "o/r", "wiki": True}]).sources():
        assert SourceRecord.from_json(source.to_json()) == source
        assert SourceRecord.from_json(source.to_json()).to_json() == source.to_json()


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"sid":"a","kind":"x","domain":"d"}'])
def test_a_spoilt_record_is_a_sentence(text: str) -> None:
    """What was stored and cannot be read says what to do."""
    with pytest.raises(DomainFileError, match="add its domain again"):
        SourceRecord.from_json(text)


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("scope", {"web_sources": [WEB | {"scope": "all"}]}, "web_sources[0].scope: should be 'subpages', 'host' or"),
    ("key", {"web_sources": [WEB | {"scop": "host"}]}, "web_sources[0].scop: is not a key that Freshet knows."),
    ("top key", {"web_source": [WEB]}, "web_source: is not a key that Freshet knows."),
    ("no url", {"web_sources": [WEB, {}]}, "web_sources[1].url: is missing."),
    ("type", {"web_sources": [WEB | {"max_depth": "3"}]}, "web_sources[0].max_depth: should be a valid integer."),
    ("bool is no number", {"web_sources": [WEB | {"max_pages": True}]}, "web_sources[0].max_pages: should be"),
    ("negative", {"web_sources": [WEB | {"max_depth": -1}]}, "web_sources[0].max_depth: should be greater"),
    ("no list", {"web_sources": WEB}, "web_sources: should be a valid"),
    ("include is a list", {"web_sources": [WEB | {"include": "*"}]}, "web_sources[0].include: should be a valid"),
    ("pattern", {"folder_sources": [{"path": "x", "include": ["[a"]}]}, "folder_sources[0].include: the pattern '[a'"),
    ("url pattern", {"web_sources": [WEB | {"exclude": [""]}]}, "web_sources[0].exclude: the pattern '' is empty."),
    ("interval", {"web_sources": [WEB | {"interval_seconds": 0}]}, "web_sources[0].interval_seconds: should be"),
    ("longest interval", {"web_sources": [WEB | {"interval_seconds": 1e8}]}, "web_sources[0].interval_seconds: should"),
    ("gap", {"web_sources": [WEB | {"gap_seconds": -1}]}, "web_sources[0].gap_seconds: should be greater than"),
    ("gap of a folder", {"folder_sources": [{"path": "x", "gap_seconds": 0}]}, "folder_sources[0].gap_seconds: is no"),
    ("no number", {"web_sources": [WEB | {"interval_seconds": float("nan")}]}, "web_sources[0].interval_seconds: "),
    ("id", {"id": "A b", "web_sources": [WEB]}, "id: is not a name; use letters without accents, 0-9, _ and -"),
    ("id with dot", {"id": "a.b", "web_sources": [WEB]}, "id: is not a name"),
    ("id with newline", {"id": "a\n", "web_sources": [WEB]}, "id: is not a name"),
    ("long id", {"id": "a" * 64, "web_sources": [WEB]}, "id: is not a name"),
    ("index", {"web_sources": [WEB], "index": "pinecone"}, "index: should be 'redis' or 'openai'."),
    ("store id", {"web_sources": [WEB], "vector_store_id": "vs 1"}, "vector_store_id: is not the id of a vector store"),
    ("scheme", {"web_sources": [{"url": "ftp://example.org/"}]}, "web_sources[0].url: is not an http or https URL"),
    ("empty path", {"folder_sources": [{"path": ""}]}, "folder_sources[0].path: "),
    ("nul", {"folder_sources": [{"path": "/a\0"}]}, "folder_sources[0].path: a path with a NUL"),
    ("a stranger's home", {"folder_sources": [{"path": "~root/x"}]}, "folder_sources[0].path: may begin with ~/"),
    ("an address", {"folder_sources": [{"path": "https://example.org/"}]}, "folder_sources[0].path: is an address"),
    ("repo", {"github_sources": [{"repo": "just-a-name"}]}, "github_sources[0].repo: is not a repository; write"),
    ("repo up", {"github_sources": [{"repo": "a/.."}]}, "github_sources[0].repo: is not a repository"),
    ("repo deep", {"github_sources": [{"repo": "a/b/c"}]}, "github_sources[0].repo: is not a repository"),
    ("branch", {"github_sources": [{"repo": "a/b", "branch": "x/../y"}]}, "github_sources[0].branch: is not the name"),
    ("branch query", {"github_sources": [{"repo": "a/b", "branch": "x?y"}]}, "github_sources[0].branch: is not the"),
    ("none", {"id": "kb"}, "This domain has no sources; give it"),
    ("empty lists", {"web_sources": [], "list_sources": []}, "This domain has no sources"),
    ("sharepoint", {"file_sources": [{"source_id": "x"}]}, "file_sources[0].site_url: is missing"),
    ("lists", {"web_sources": [WEB], "list_sources": [{}]}, "list_sources[0].site_url: is missing"),
    ("pages", {"sitepage_sources": [{}]}, "sitepage_sources[0].site_url: is missing"),
    ("two", {"web_sources": [{}, {}]}, "web_sources[0].url: is missing (and 1 more)."),
    ("twice", {"web_sources": [WEB | {"id": "a"}, WEB | {"id": "a"}]}, "web_sources[1].id: a is the name of another"),
    (
        "twice, across kinds",
        {"web_sources": [WEB | {"id": "a"}], "folder_sources": [{"path": "x", "id": "a"}]},
        "folder_sources[0].id: a is the name of another source",
    ),
    (
        "the name of a wiki",
        {"web_sources": [WEB | {"id": "a-wiki"}], "github_sources": [{"repo": "o/r", "id": "a", "wiki": True}]},
        "github_sources[0].id: a is the name of another source",
    ),
    ("surrogate", {"id": "a", "name": "\udcff", "web_sources": [WEB]}, "Invalid JSON"),
]


@pytest.mark.parametrize(("name", "fields", "sentence"), WRONG, ids=[row[0] for row in WRONG])
def test_what_is_wrong_is_said_by_place(name: str, fields: dict[str, Any], sentence: str) -> None:
    """One sentence, which names the place."""
    with pytest.raises(DomainFileError) as caught:
        read(**fields)

    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


NO_JSON = [
    ("nothing", "", "This is not JSON: Expecting value in line 1, column 1."),
    ("half", '{"id": "a",\n', "This is not JSON: "),
    ("a list", "[]", "A domain is a JSON object"),
    ("a key twice", '{"id": "a", "id": "b"}', "id: is there twice."),
    ("very deep", '{"a":' * 100_000, "This is not a domain: it is nested too deeply."),
]


@pytest.mark.parametrize(("name", "text", "sentence"), NO_JSON, ids=[row[0] for row in NO_JSON])
def test_what_is_no_json_is_said(name: str, text: str, sentence: str) -> None:
    """A file that is not a JSON object is told apart from one with a wrong value."""
    with pytest.raises(DomainFileError) as caught:
        parse_domain(text, FOLDER)

    assert str(caught.value).startswith(sentence)


SECRETS = [
    "https://me:hunter2@example.org/",
    "https://hunter2@example.org/",
    "https://example.org/?api_key=hunter2",
    "https://acct.blob.core.windows.net/c/x?sv=1&sig=hunter2",
    "https://me:hunter2@github.com/o/r",
    "https://me:hunter2@exa mple.org/",
]


@pytest.mark.parametrize("url", SECRETS)
def test_secrets_are_refused_and_not_repeated(url: str) -> None:
    """A URL with a password is refused; the sentence does not hold it, nor does its cause."""
    for attempt in (lambda: read(web_sources=[{"url": url}]), lambda: parse_quick(url, FOLDER)):
        with pytest.raises(DomainFileError) as caught:
            attempt()
        assert "hunter2" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__


QUICK = [
    ("a site", "https://docs.example.org/guide/", "docs-example-org-guide", "web", "url", None),
    ("no scheme", " www.example.org ", "example-org", "web", "url", "https://www.example.org/"),
    ("a repository", "https://github.com/octo/hello", "octo-hello", "github", "repo", "octo/hello"),
    ("to clone", "http://www.github.com/octo/hello.git/", "octo-hello", "github", "repo", "octo/hello"),
    ("a branch", "https://github.com/o/r/tree/dev", "o-r", "github", "branch", "dev"),
    ("a wiki", "https://github.com/o/r/wiki", "github-com-o-r-wiki", "web", "url", None),
    ("issues", "https://github.com/o/r/issues/1", "github-com-o-r-issues-1", "web", "url", None),
    ("no owner", "https://github.com/topics/python", "github-com-topics-python", "web", "url", None),
    ("an owner", "https://github.com/octo", "github-com-octo", "web", "url", None),
    ("GitHub itself", "https://github.com/", "github-com", "web", "url", None),
    ("another host", "https://github.com.example.org/o/r", "github-com-example-org-o-r", "web", "url", None),
    ("a folder", "/data/My Docs", "my-docs", "folder", "path", "/data/My Docs"),
    ("a folder here", "notes", "notes", "folder", "path", f"{FOLDER}/notes"),
    ("this folder", ".", "domain01", "folder", "path", FOLDER),
    ("at home", "~/notes", "notes", "folder", "path", "/home/me/notes"),
]


@pytest.mark.parametrize(("name", "text", "domain_id", "kind", "key", "value"), QUICK, ids=[row[0] for row in QUICK])
def test_one_word_is_a_domain(name: str, text: str, domain_id: str, kind: str, key: str, value: str | None) -> None:
    """A URL, a repository or a folder is enough for a domain."""
    domain = parse_quick(text, FOLDER, "/home/me")
    [source] = domain.sources()

    assert (domain.id, source.sid, source.kind) == (domain_id, f"{domain_id}.{domain_id}", kind)
    assert source.config[key] == (value or text)
    assert domain.name


def test_a_folder_of_a_repository() -> None:
    """The address of a folder on GitHub takes its documents only."""
    [source] = parse_quick("https://github.com/o/r/tree/main/docs/%5Bv1%5D", FOLDER).sources()

    assert source.config["include"][0] == "/docs/[[]v1]/**/*.md"


def test_a_github_of_ones_own() -> None:
    """The address of the GitHub server is a setting."""
    [source] = parse_quick("http://127.0.0.1:8080/o/r", FOLDER, web_url="http://127.0.0.1:8080").sources()

    assert (source.kind, source.config["repo"]) == ("github", "o/r")


@pytest.mark.parametrize("text", ["", "  ", "https://", "/a\0b", "ftp://example.org/x"])
def test_nothing_useful_is_a_sentence(text: str) -> None:
    """What is neither is refused."""
    with pytest.raises(DomainFileError):
        parse_quick(text, FOLDER)
