"""A repository as a source, against a server that speaks GitHub's API."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any

import pytest

from core.keys import Keys
from core.models import Deferred, Failed, Fetched, FetchRequest, ListingBatch, ListingEnd, Ref
from core.net.fetcher import Fetcher
from core.registry.record import Item
from core.secret_text import SecretStr
from core.settings import Settings
from core.sources.io.github import GithubSource
from core.sources.io.source import Source
from core.sources.source_record import SourceRecord, SourceState
from core.store.connect import Client
from tests.github_server import API, RAW, GithubServer, sha
from tests.web import FakeWeb

TOKEN = "ghp_very_secret"


class Context:
    """Opens sources on a hub, as the settings of the test have them."""

    def __init__(self, stack: AsyncExitStack, settings: Settings, redis: Client, keys: Keys) -> None:
        self._stack, self._settings, self._redis, self._keys = stack, settings, redis, keys
        self.fetcher: Fetcher

    async def open(self, hub: GithubServer, repo: str = "o/r", branch: str = "", **options: Any) -> GithubSource:
        changes = options.pop("settings", {})
        settings = self._settings.model_copy(update=hub.settings() | changes)
        self.fetcher = await self._stack.enter_async_context(Fetcher(settings, self._redis, self._keys))
        return GithubSource(settings, self.fetcher, repo, branch, **options)


@pytest.fixture
async def context(settings: Settings, redis: Client, keys: Keys) -> AsyncIterator[Context]:
    async with AsyncExitStack() as stack:
        # A gap that nobody could sit out: what works here works without standing in line.
        yield Context(stack, settings.model_copy(update={"fetch_host_gap_seconds": 1_000}), redis, keys)


@pytest.fixture
async def hub() -> AsyncIterator[GithubServer]:
    async with GithubServer(TOKEN) as running:
        running.repository("o/r")
        running.file("README.md", b"# Hello")
        running.file("docs/guide/a.md", b"A")
        running.file("src/main.py", b"print()")
        yield running


class Listing:
    """A listing, collected."""

    def __init__(self, parts: list[ListingBatch | ListingEnd]) -> None:
        *self.batches, self.end = parts
        assert isinstance(self.end, ListingEnd)
        self.refs = [ref for batch in self.batches for ref in batch.refs]
        self.refused = {row.url: row.reason for batch in self.batches for row in batch.refused}

    @property
    def versions(self) -> dict[str, str]:
        return {ref.address.partition("/blob/")[2]: ref.version for ref in self.refs}


async def listing(source: Source, memory: Mapping[str, str] | None = None) -> Listing:
    return Listing([part async for part in source.list(memory or {})])


def item(hub: GithubServer, path: str, listed: str = "", **fields: Any) -> Item:
    return Item("url_x", fetch_url=f"{hub.web_url}/o/r/blob/{path}", listed_version=listed, **fields)


def etag(content: bytes) -> dict[str, str]:
    return {"If-None-Match": f'"{sha("blob", content)}"'}


# ── listing ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_complete_listing(hub: GithubServer, context: Context) -> None:
    """Documents of the default branch under the URLs people know, blob shas as versions, by three requests."""
    source = await context.open(hub)

    found = await listing(source)

    assert found.refs == [
        Ref(f"{hub.web_url}/o/r/blob/main/README.md", depth=0, version=sha("blob", b"# Hello")),
        Ref(f"{hub.web_url}/o/r/blob/main/docs/guide/a.md", depth=2, version=sha("blob", b"A")),
    ]
    assert (found.end.is_complete, found.refused) == (True, {})
    assert hub.paths[:2] == ["/repos/o/r/commits/HEAD", "/repos/o/r"]
    assert hub.quota_used == len(hub.requests) == 3


async def test_every_request_says_what_it_wants(hub: GithubServer, context: Context) -> None:
    """Version, media type and token; no robots.txt is asked for."""
    await listing(await context.open(hub, branch="main"))

    assert [seen.headers["accept"] for seen in hub.requests] == [
        "application/vnd.github.sha",
        "application/vnd.github+json",
    ]
    assert {seen.headers["x-github-api-version"] for seen in hub.requests} == {"2022-11-28"}
    assert {seen.headers["authorization"] for seen in hub.requests} == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize("branch", ["", "main"])
async def test_unchanged_is_one_request_that_costs_nothing(hub: GithubServer, context: Context, branch: str) -> None:
    """Named branch or default: GitHub says 304, and its quota stays as it was."""
    source = await context.open(hub, branch=branch)
    first = await listing(source)
    asked, used = len(hub.requests), hub.quota_used

    again = await listing(source, first.end.memory)

    assert again.end == ListingEnd(False, "unchanged", first.end.memory)
    assert again.batches == []
    assert (len(hub.requests) - asked, hub.quota_used - used) == (1, 0)


async def test_the_same_commit_under_another_etag_is_unchanged(hub: GithubServer, context: Context) -> None:
    """GitHub's ETags depend on the token; a new token does not make everything new."""
    source = await context.open(hub)
    first = await listing(source)

    again = await listing(source, {**first.end.memory, "etag": '"other"'})

    assert again.end == ListingEnd(False, "unchanged", first.end.memory)


async def test_changed_files_move_and_others_stay(hub: GithubServer, context: Context) -> None:
    """One changed, one new, one removed: exactly these differ, and the listing is complete."""
    source = await context.open(hub)
    first = await listing(source)
    hub.file("README.md", b"# Changed")
    hub.file("new.txt", b"N")
    hub.remove("docs/guide/a.md")

    second = await listing(source, first.end.memory)

    assert second.end.is_complete
    assert second.versions == {"main/README.md": sha("blob", b"# Changed"), "main/new.txt": sha("blob", b"N")}
    assert second.end.memory["commit"] != first.end.memory["commit"]


async def test_new_patterns_list_anew(hub: GithubServer, context: Context) -> None:
    """That the commit is the same says nothing about what we want of it."""
    first = await listing(await context.open(hub))

    second = await listing(await context.open(hub, include=["src/**"]), first.end.memory)

    assert (second.end.is_complete, list(second.versions)) == (True, ["main/src/main.py"])


async def test_include_and_exclude(hub: GithubServer, context: Context) -> None:
    """Globs as in .gitignore; exclude wins."""
    source = await context.open(hub, include=["docs/**", "*.py"], exclude=["docs/guide/"])

    assert list((await listing(source)).versions) == ["main/src/main.py"]


async def test_batches_are_bounded(hub: GithubServer, context: Context) -> None:
    """However many files, no batch has more than 500."""
    for number in range(1_100):
        hub.file(f"many/{number}.md", b"x")

    found = await listing(await context.open(hub))

    assert [len(batch.refs) for batch in found.batches] == [500, 500, 102]


async def test_a_truncated_tree_is_walked(hub: GithubServer, context: Context) -> None:
    """What does not fit into one answer is asked for folder by folder, as deep as needed, each file once."""
    paths = [f"docs/{a}/{b}/{c}.md" for a in "abc" for b in "de" for c in "fgh"]
    for path in paths:
        hub.file(path, path.encode())
    hub.truncate_above(10)

    found = await listing(await context.open(hub))

    assert found.end.is_complete
    assert sorted(found.versions) == sorted(f"main/{path}" for path in ["README.md", "docs/guide/a.md", *paths])
    assert all(ref.depth == ref.address.partition("/main/")[2].count("/") for ref in found.refs)


async def test_folders_in_which_nothing_is_taken_are_not_walked(hub: GithubServer, context: Context) -> None:
    """A truncated tree costs only the folders that the patterns want."""
    for number in range(20):
        hub.file(f"src/{number}.py", b"x")
    hub.truncate_above(10)

    found = await listing(await context.open(hub, include=["docs/**"]))

    assert (found.end.is_complete, list(found.versions)) == (True, ["main/docs/guide/a.md"])
    assert hub.tree_path("src") not in hub.paths


@pytest.mark.parametrize("answer", [500, 404, "no JSON", '{"tree": []}'])
async def test_an_unreadable_part_leaves_the_listing_incomplete(
    hub: GithubServer, context: Context, answer: int | str
) -> None:
    """Nothing is gone because of it, and the next listing asks for all of it again."""
    source = await context.open(hub)
    first = await listing(source)
    hub.file("docs/guide/b.md", b"B")
    hub.truncate_above(3)
    hub.web.on(hub.tree_path("docs"), answer, hub.web.fallback)

    broken = await listing(source, first.end.memory)

    assert (broken.end.is_complete, broken.end.memory) == (False, first.end.memory)
    assert broken.end.reason.endswith((".", "?"))

    healed = await listing(source, broken.end.memory)
    assert (healed.end.is_complete, len(healed.refs)) == (True, 3)


async def test_a_folder_too_large_to_list_is_said(hub: GithubServer, context: Context) -> None:
    """Where even a single folder is truncated, nobody pretends to know the rest."""
    hub.truncate_above(1)
    cut = '{"tree": [], "truncated": true}'
    hub.web.page(hub.tree_path("docs"), cut)

    found = await listing(await context.open(hub))

    assert found.end == ListingEnd(False, "The folder docs/ has more entries than GitHub lists.", {})


async def test_what_is_refused_says_why(hub: GithubServer, context: Context) -> None:
    """Submodules, links and files over the cap are there and not taken."""
    hub.submodule("vendor/lib")
    hub.symlink("link.md", "README.md")
    hub.file("big.md", b"x" * 2_000)

    found = await listing(await context.open(hub, settings={"fetch_max_bytes": 1_024}))

    base = f"{hub.web_url}/o/r/blob/main"
    assert found.refused == {
        f"{base}/vendor/lib": "submodule",
        f"{base}/link.md": "symlink",
        f"{base}/big.md": "too large",
    }
    assert len(found.refs) == 2


async def test_odd_names_are_listed_and_fetched(hub: GithubServer, context: Context) -> None:
    """A branch with a slash and every kind of file name make the way there and back."""
    hub.branch("feature/ü#1")
    names = ["a b.md", "ü/ß.md", "c#.md", "100%.md", "%41.md", "q?.md", "(x)+y@z.md", "日本.md"]
    for name in names:
        hub.file(name, name.encode())
    source = await context.open(hub, branch="feature/ü#1", include=names)

    found = await listing(source)
    bodies = [
        answer.body
        for ref in found.refs
        if isinstance(answer := await source.fetch(Item("x", fetch_url=ref.address), {}), Fetched)
    ]

    assert found.end.is_complete
    assert sorted(body.decode() for body in bodies) == sorted(names)
    assert all("/blob/feature/%C3%BC%231/" in ref.address for ref in found.refs)


async def test_a_url_with_a_branch_names_the_source(hub: GithubServer, context: Context) -> None:
    """What people copy from the address bar will do."""
    hub.branch("v2")
    hub.file("two.md", b"2")

    found = await listing(await context.open(hub, f"{hub.web_url}/o/r/tree/v2"))

    assert "v2/two.md" in found.versions


@pytest.mark.parametrize(
    ("repo", "options"),
    [("nonsense", {}), ("https://elsewhere.example/o/r", {}), ("o/r", {"branch": "a..b"}), ("o/r", {"include": ["["]})],
)
async def test_what_cannot_be_a_source(hub: GithubServer, context: Context, repo: str, options: dict[str, Any]) -> None:
    """A wrong name, branch or pattern is said when the source is made."""
    with pytest.raises(ValueError, match=r"^.{20,}"):
        await context.open(hub, repo, **options)


# ── troubles of a listing ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("repo", "branch", "token", "reason"),
    [
        (
            "o/none",
            "",
            TOKEN,
            "GitHub says 404 for o/none: is the name right, and may the token in GITHUB_TOKEN read it?",
        ),
        ("o/none", "", "", "GitHub says 404 for o/none: is the name right? A private repository needs GITHUB_TOKEN."),
        ("o/r", "nope", TOKEN, "GitHub knows no branch nope in o/r."),
        ("o/empty", "", TOKEN, "o/empty has no commit yet."),
        ("o/r", "", "wrong", "GitHub says 401 for o/r: the token in GITHUB_TOKEN is not accepted."),
    ],
)
async def test_why_there_is_no_listing(
    hub: GithubServer, context: Context, repo: str, branch: str, token: str, reason: str
) -> None:
    """A sentence that a person can act on; what was remembered stays."""
    hub.repository("o/empty")
    source = await context.open(hub, repo, branch, settings={"github_token": SecretStr(token) if token else None})

    found = await listing(source, {"x": "y"})

    assert (found.end, found.batches) == (ListingEnd(False, reason, {"x": "y"}), [])


async def test_a_private_repository_needs_the_token(context: Context) -> None:
    """With it everything is listed and read; without it there is a sentence, and no file looks deleted."""
    async with GithubServer(TOKEN) as hub:
        hub.repository("o/r", private=True)
        hub.file("a.md", b"A")
        friend = await context.open(hub)
        stranger = await context.open(hub, settings={"github_token": None})

        assert (await listing(friend)).end.is_complete
        assert (await friend.fetch(item(hub, "main/a.md"), {})).body == b"A"  # type: ignore[union-attr]
        assert "GITHUB_TOKEN" in (await listing(stranger)).end.reason
        refused = await stranger.fetch(item(hub, "main/a.md"), {})
        assert isinstance(refused, Failed)
        assert (refused.http_status, "GITHUB_TOKEN" in refused.text) == (403, True)


async def test_a_server_that_is_away(hub: GithubServer, context: Context) -> None:
    """Network trouble is an incomplete listing too."""
    hub.web.reset("/repos/o/r/commits/HEAD")

    found = await listing(await context.open(hub))

    assert found.end == ListingEnd(False, "The connection broke off.", {})


# ── fetching ────────────────────────────────────────────────────────────────────────────────────


async def test_a_file_is_fetched_raw(hub: GithubServer, context: Context) -> None:
    """Its ETag is the blob sha, its type what its name says, its URL the one people know; no quota is used."""
    source = await context.open(hub)

    got = await source.fetch(item(hub, "main/README.md"), {})

    assert isinstance(got, Fetched)
    assert (got.status, got.body, got.hops) == (200, b"# Hello", ())
    assert got.url == got.final_url == f"{hub.web_url}/o/r/blob/main/README.md"
    assert got.header("etag") == f'"{sha("blob", b"# Hello")}"'
    assert got.header("content-type") == "text/markdown; charset=utf-8"
    assert (hub.paths, hub.quota_used) == (["/o/r/main/README.md"], 0)


async def test_what_the_listing_knows_is_not_asked_for(hub: GithubServer, context: Context) -> None:
    """The listed version is the one we have: 304 without any request."""
    source = await context.open(hub)

    got = await source.fetch(item(hub, "main/README.md", sha("blob", b"# Hello")), etag(b"# Hello"))

    assert isinstance(got, Fetched)
    assert (got.status, got.body, hub.requests) == (304, b"", [])


async def test_without_a_listed_version_the_body_decides(hub: GithubServer, context: Context) -> None:
    """Fetched, found to be what we have, and told as 304."""
    source = await context.open(hub)

    same = await source.fetch(item(hub, "main/README.md"), etag(b"# Hello"))
    other = await source.fetch(item(hub, "main/README.md"), etag(b"old"))

    assert isinstance(same, Fetched)
    assert isinstance(other, Fetched)
    assert (same.status, other.status) == (304, 200)


async def test_a_stale_cache_does_not_hide_a_change(hub: GithubServer, context: Context) -> None:
    """Raw files may be minutes behind: then the listed blob itself is asked for."""
    new = hub.file("README.md", b"# New")
    hub.cached_raw("main/README.md", b"# Hello")
    source = await context.open(hub)

    got = await source.fetch(item(hub, "main/README.md", new), etag(b"# Hello"))

    assert isinstance(got, Fetched)
    assert (got.status, got.body, got.header("etag")) == (200, b"# New", f'"{new}"')
    assert (got.header("content-type"), hub.quota_used) == ("text/markdown; charset=utf-8", 1)


@pytest.mark.parametrize("listed", ["f" * 40, "2024-01-01"])
async def test_a_listed_version_that_is_nowhere(hub: GithubServer, context: Context, listed: str) -> None:
    """Force-pushed away, or another source's word: what the branch has is the answer."""
    got = await (await context.open(hub)).fetch(item(hub, "main/README.md", listed), {})

    assert isinstance(got, Fetched)
    assert (got.status, got.body) == (200, b"# Hello")


async def test_a_missing_file_is_404(hub: GithubServer, context: Context) -> None:
    """Once its repository is known to be there, which is asked once a minute at most."""
    now = [1_000.0]
    source = await context.open(hub, clock=lambda: now[0])

    answers = [await source.fetch(item(hub, f"main/{name}.md"), {}) for name in "abc"]
    now[0] += 61
    answers.append(await source.fetch(item(hub, "main/d.md"), {}))

    assert [answer.status for answer in answers if isinstance(answer, Fetched)] == [404] * 4
    assert hub.paths.count("/repos/o/r") == 2


async def test_a_file_is_not_gone_with_a_server_in_trouble(hub: GithubServer, context: Context) -> None:
    """404 for a raw file and 502 for its repository is a 502."""
    hub.web.page("/repos/o/r", status=502)

    got = await (await context.open(hub)).fetch(item(hub, "main/no.md"), {})

    assert isinstance(got, Fetched)
    assert got.status == 502


async def test_other_statuses_are_passed_on(hub: GithubServer, context: Context) -> None:
    """What the raw host says in its trouble, whoever decides should know."""
    hub.web.page("/o/r/main/README.md", "sorry", status=503)

    got = await (await context.open(hub)).fetch(item(hub, "main/README.md"), {})

    assert isinstance(got, Fetched)
    assert (got.status, got.final_url) == (503, f"{hub.web_url}/o/r/blob/main/README.md")


async def test_wiki_pages_are_web_pages(hub: GithubServer, context: Context) -> None:
    """Validators and robots.txt as on any site, and no token."""
    hub.web.page("/o/r/wiki/Home", "<p>wiki", etag='"w"')
    source = await context.open(hub, settings={"fetch_host_gap_seconds": 0})
    url = f"{hub.web_url}/o/r/wiki/Home"
    page = Item("x", fetch_url=url, validators_url=url)

    first, second = await source.fetch(page, {}), await source.fetch(page, {"If-None-Match": '"w"'})

    assert isinstance(first, Fetched)
    assert isinstance(second, Fetched)
    assert (first.body, second.status) == (b"<p>wiki", 304)
    assert "/robots.txt" in hub.paths
    assert not any("authorization" in seen.headers for seen in hub.requests)


# ── limits ──────────────────────────────────────────────────────────────────────────────────────


async def is_shut(context: Context, hub: GithubServer, host: str) -> bool:
    """Is nobody to ask this host, by what all processes share?"""
    asked = len(hub.requests)
    got = await context.fetcher.fetch(FetchRequest(hub.web.url("/x", host), is_api=True, max_wait_seconds=0))
    assert isinstance(got, Deferred) == (len(hub.requests) == asked)
    return isinstance(got, Deferred)


async def test_the_hourly_limit_ends_a_listing(hub: GithubServer, context: Context) -> None:
    """Used up: the reason says until when, the gate is shut for all, and what was remembered stays."""
    hub.rate_limit(0, time.time() + 1_800)

    found = await listing(await context.open(hub), {"x": "y"})

    assert found.end in (
        ListingEnd(False, f"GitHub's rate limit, again in {s} s", {"x": "y"}) for s in range(1_790, 1_801)
    )
    assert await is_shut(context, hub, API)
    assert not await is_shut(context, hub, RAW)


async def test_the_last_request_of_the_hour_still_counts(hub: GithubServer, context: Context) -> None:
    """Its answer is used; what would come after it is not asked."""
    hub.rate_limit(2, time.time() + 1_800)
    source = await context.open(hub)

    found = await listing(source)

    assert not found.end.is_complete
    assert found.end.reason.startswith("GitHub's rate limit, again in 1")
    assert len(hub.requests) == 2


@pytest.mark.parametrize(
    ("status", "message", "headers", "wait"),
    [
        (403, "You have exceeded a secondary rate limit.", {}, 60),
        (403, "Slow down", {"Retry_After": "300"}, 300),
        (429, "Too many", {}, 60),
        (429, "Too many", {"Retry_After": "300"}, 300),
    ],
)
async def test_secondary_limits(
    hub: GithubServer, context: Context, status: int, message: str, headers: dict[str, str], wait: int
) -> None:
    """Listing and fetching both wait, and so does the whole fleet: the second source asks nothing."""
    hub.refuse(status, message, **headers)
    source, neighbour = await context.open(hub), await context.open(hub)

    found = await listing(source)
    deferred = await source.fetch(item(hub, "main/README.md"), {})
    asked = len(hub.requests)
    later = await listing(neighbour)

    assert found.end == ListingEnd(False, f"GitHub's rate limit, again in {wait} s", {})
    assert deferred == Deferred(wait, "GitHub's rate limit")
    assert later.end.reason.startswith("GitHub's rate limit, again in ")
    assert (asked, len(hub.requests)) == (2, 2)
    assert (await is_shut(context, hub, API), await is_shut(context, hub, RAW)) == (True, True)


async def test_a_403_that_is_no_limit_is_a_failure(hub: GithubServer, context: Context) -> None:
    """Waiting would not help: a person has to."""
    hub.refuse(403, "Resource not accessible by personal access token")
    source = await context.open(hub)

    found, got = await listing(source), await source.fetch(item(hub, "main/README.md"), {})

    assert found.end.reason.startswith("GitHub says 403 for o/r: ")
    assert isinstance(got, Failed)
    assert not await is_shut(context, hub, API)


# ── the token ───────────────────────────────────────────────────────────────────────────────────


async def test_the_token_stays_with_its_hosts(hub: GithubServer, context: Context) -> None:
    """A redirect to another origin goes there without it; a renamed repository keeps it."""
    async with FakeWeb("127.0.0.9") as stranger:
        stranger.page("/take", "x")
        hub.web.redirect("/o/r/main/README.md", stranger.url("/take"))
        hub.rename("old/name", "o/r")
        source, renamed = await context.open(hub), await context.open(hub, "old/name")

        got = await source.fetch(item(hub, "main/README.md"), {})
        await listing(renamed)

        assert isinstance(got, Fetched)
        assert got.body == b"x"
        assert TOKEN not in str(stranger.requests)
        assert hub.web.asked("/repos/o/r/commits/HEAD")[0].headers["authorization"] == f"Bearer {TOKEN}"


async def test_a_renamed_repository_is_still_asked_with_its_validator(hub: GithubServer, context: Context) -> None:
    """The ETag goes to where it came from, behind the redirect."""
    hub.rename("old/name", "o/r")
    source = await context.open(hub, "old/name")
    first = await listing(source)

    again = await listing(source, first.end.memory)

    assert (first.end.is_complete, again.end.reason) == (True, "unchanged")
    assert hub.requests[-1].headers["if-none-match"] == first.end.memory["etag"]


async def test_the_token_is_nowhere_to_be_seen(
    hub: GithubServer, context: Context, capfd: pytest.CaptureFixture[str], redis: Client
) -> None:
    """Not in what is listed, remembered, answered, logged or stored."""
    source = await context.open(hub)
    found = await listing(source)
    got = await source.fetch(item(hub, "main/README.md"), {})
    hub.refuse(403, TOKEN)
    failed = await source.fetch(item(hub, "main/README.md"), {})
    stored = [await redis.hgetall(key) for key in await redis.keys("fetch:gate:*")]

    said = [found.batches, found.end, got, failed, vars(source), vars(source._github), stored, capfd.readouterr()]
    assert TOKEN not in repr(said)


# ── GitHub Enterprise ───────────────────────────────────────────────────────────────────────────


async def test_enterprise_has_everything_on_one_host(context: Context) -> None:
    """Base URLs with a path, as /api/v3 and /raw: listing, unchanged and fetching are the same."""
    async with GithubServer(TOKEN, enterprise=True) as hub:
        hub.repository("o/r", "trunk")
        hub.file("docs/a.md", b"A")
        source = await context.open(hub, f"{hub.web_url}/o/r")

        first = await listing(source)
        again = await listing(source, first.end.memory)
        got = await source.fetch(item(hub, "trunk/docs/a.md"), {})

        assert hub.api_url.endswith("/api/v3")
        assert (list(first.versions), again.end.reason) == (["trunk/docs/a.md"], "unchanged")
        assert isinstance(got, Fetched)
        assert (got.body, hub.paths[-1]) == (b"A", "/raw/o/r/trunk/docs/a.md")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://github.com/o/r/blob/main/docs/a.md", ""),
        ("https://github.com/o/r/blob/main/docs/old/a.md", "excluded"),
        ("https://github.com/o/r/blob/main/code.py", "not included"),
        ("https://github.com/o/r/blob/other/docs/a.md", None),
        ("https://github.com/o/another/blob/main/docs/a.md", None),
        ("https://mill.example/docs/a.md", None),
    ],
)
def test_stored_repository_judges_without_being_opened(url: str, reason: str | None) -> None:
    """Files of its own branch are taken or not; all else is none of its business."""
    config = {"repo": "o/r", "branch": "main", "include": ["*.md"], "exclude": ["docs/old/"]}
    state = SourceState(SourceRecord("d.r", "github", "d", config))
    judgement = GithubSource.judge(state, Settings(), url, 0, 0.0)

    assert (judgement.reason if judgement else None) == reason
