"""A repository on GitHub as a source: listed by the git tree of one commit, read as raw files.

Items have the URLs people know (`/blob/<branch>/…`); a file's version is its blob sha, so that an unchanged file costs
no request and an unchanged repository one request that GitHub does not count (with a token: without one it does).
Anything else at the repository, like its wiki, is a web page and fetched as one, without the token.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar
from urllib.parse import unquote

import msgspec
from pydantic import AfterValidator

from core.models import Deferred, Failed, Fetched, FetchRequest, FetchResult, ListingBatch, ListingEnd, RejectedUrl
from core.registry.record import Item
from core.settings import Settings
from core.sources import github_names, github_responses
from core.sources.domain_schema import GITHUB_URL, GapSeconds, Globs, SourceConfig
from core.sources.github_names import Repository
from core.sources.github_responses import BranchFilter, GitTree
from core.sources.io.folder import judge_path
from core.sources.io.github_access import RAW, SHA, GithubClient
from core.sources.io.source import UNCHANGED, Source
from core.sources.source_record import SourceState
from core.sources.web_config import WebConfig
from core.urls.normalise import clean_url
from core.urls.path_patterns import DOCUMENTS, PathPatterns
from core.urls.scope import EXCLUDED, Judgement
from core.value_class import value_class

if TYPE_CHECKING:
    from core.net.fetcher import BodySlot, Fetcher
    from core.runtime.context import Context

T = TypeVar("T")

WIKI_SUFFIX = "-wiki"
TREE_BYTES = 100_000_000
"""A hundred thousand entries, the most GitHub gives at once, are a fifth of this."""
SMALL_BYTES = 1_000_000
PRESENT_SECONDS = 60.0
"""How long a repository that answered is believed to be there, when files of it are missing."""

_WILD = re.compile(r"[*?\[]")
# First parts of a path on github.com that are not the owner of a repository.
_NO_OWNERS = frozenset({"about", "apps", "collections", "enterprise", "explore", "features", "login", "marketplace"})
_NO_OWNERS |= {"orgs", "pricing", "search", "settings", "sponsors", "topics", "trending", "users"}


class _ListingFailed(Exception):
    """A listing cannot go on; the text says why, for people."""


@value_class
class BranchHead:
    commit: str
    etag: str
    url: str


def _repo_name(repo: str) -> str:
    repository = github_names.parse_repository(repo, GITHUB_URL)
    if isinstance(repository, RejectedUrl) or repository.branch:
        raise ValueError("is not a repository; write owner/name")
    return repository.full_name


def _branch_name(branch: str) -> str:
    if branch and not github_names.is_branch(branch):
        raise ValueError("is not the name of a branch")
    return branch


class GithubConfig(SourceConfig):
    """The documents of a repository, and its wiki if asked for."""

    location_field = "repo"
    companion_suffixes = (WIKI_SUFFIX,)

    repo: Annotated[str, AfterValidator(_repo_name)]
    branch: Annotated[str, AfterValidator(_branch_name)] = ""
    """Empty: the default branch."""
    include: Globs = DOCUMENTS
    exclude: Globs = ()
    wiki: bool = False
    gap_seconds: GapSeconds | None = None
    """Between requests to its wiki; the API counts requests itself."""

    @classmethod
    def recognise(cls, word: str, web_url: str) -> dict[str, Any] | None:
        return _named_repository(word, web_url)

    def companions(self, web_url: str) -> Sequence[tuple[str, str, SourceConfig]]:
        if not self.wiki:
            return ()
        url = f"{web_url.rstrip('/')}/{self.repo}/wiki"
        pace: dict[str, Any] = {"interval_seconds": self.interval_seconds, "gap_seconds": self.gap_seconds}
        return ((WIKI_SUFFIX, "web", WebConfig(url=url, sitemap=False, **pace)),)


class GithubSource(Source):
    """One branch of one repository. Raises ValueError, a sentence, for a name or pattern that cannot be."""

    config_model = GithubConfig
    interval_setting = "github_list_seconds"
    is_listing_evidence = True

    def __init__(
        self,
        settings: Settings,
        fetcher: Fetcher,
        repo: str,
        branch: str = "",
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._repo = _checked(repo, branch, settings.github_web_url)
        self._fetcher = fetcher
        self._github = GithubClient(settings, fetcher, self._repo, clock)
        self._patterns = PathPatterns(include or DOCUMENTS, exclude)
        self._max_bytes = settings.fetch_max_bytes
        self._clock = clock
        web, raw, api = (
            github_names.base_url(getattr(settings, name), name.upper())
            for name in ("github_web_url", "github_raw_url", "github_api_url")
        )
        self._blobs_url = f"{web}/{self._repo.full_name}/blob/"
        """What the items' URLs begin with."""
        self._raw_url = f"{raw}/{self._repo.full_name}/"
        """What the raw files' URLs begin with; branch and path follow as in the item's URL."""
        self._api_url = f"{api}/repos/{self._repo.full_name}"
        self._present_until = 0.0

    @classmethod
    def open(cls, state: SourceState, context: Context, now: float) -> Self:
        config = state.record.config
        include, exclude = config.get("include", ()), config.get("exclude", ())
        return cls(context.settings, context.fetcher, config["repo"], config["branch"], include, exclude)

    @classmethod
    def judge(cls, state: SourceState, settings: Settings, address: str, depth: int, now: float) -> Judgement | None:
        config = state.record.config
        repo = _checked(config["repo"], config["branch"], settings.github_web_url)
        web = github_names.base_url(settings.github_web_url, "GITHUB_WEB_URL")
        path = _path_inside(address, f"{web}/{repo.full_name}/blob/", repo.branch)
        patterns = PathPatterns(config.get("include", ()) or DOCUMENTS, config.get("exclude", ()))
        return judge_path(patterns, path) if path else None

    def exclusion_reason(self, address: str) -> str:
        path = _path_inside(address, self._blobs_url, self._repo.branch)
        return EXCLUDED if path and not self._patterns.matches(path) else ""

    # ── listing ──

    async def list(self, memory: Mapping[str, str]) -> AsyncIterator[ListingBatch | ListingEnd]:
        """List every file of the branch's newest commit that the patterns take."""
        known = memory if memory.get("scope") == self._scope() else {}
        try:
            head = await self._head(known)
            if head.commit == known.get("commit"):
                yield ListingEnd(False, UNCHANGED, self._memory(head, known.get("branch", "")))
                return
            branch = self._repo.branch or await self._default_branch()
            files_url = f"{self._blobs_url}{github_names.quote_path(branch)}/"
            async for batch in self._walk(head.commit, BranchFilter(files_url, self._patterns, self._max_bytes)):
                yield batch
        except _ListingFailed as failure:
            # What we remember stays as it was: the next listing asks for all of it again.
            yield ListingEnd(False, str(failure), dict(memory))
            return
        yield ListingEnd(True, memory=self._memory(head, branch))

    async def _head(self, known: Mapping[str, str]) -> BranchHead:
        """Return the newest commit; the one we know if GitHub says that nothing changed."""
        branch = self._repo.branch or "HEAD"
        etag, url = known.get("etag", ""), known.get("etag_url", "")
        answer = await self._github.get(
            f"{self._api_url}/commits/{github_names.quote_path(branch)}",
            accept=SHA,
            conditional={"If-None-Match": etag} if etag else {},
            conditional_url=url,
            max_bytes=SMALL_BYTES,
        )
        match answer:
            case Fetched(status=304) if etag:
                return BranchHead(known.get("commit", ""), etag, url)
            case Fetched(status=422):
                raise _ListingFailed(f"GitHub knows no branch {branch} in {self._repo.full_name}.")
            case Fetched(status=409):
                raise _ListingFailed(f"{self._repo.full_name} has no commit yet.")
        good = self._good(answer, f"the commit of {branch}")
        commit = self._parsed(github_responses.parse_commit(good.body), "commit")
        return BranchHead(commit, good.header("etag"), good.final_url)

    async def _default_branch(self) -> str:
        good = self._good(await self._github.get(self._api_url, max_bytes=SMALL_BYTES), "the repository")
        return self._parsed(github_responses.parse_default_branch(good.body), "repository")

    async def _walk(self, commit: str, branch_filter: BranchFilter) -> AsyncIterator[ListingBatch]:
        """List all folders at once; where that is too much for one answer, folder by folder."""
        pending = [("", commit)]
        while pending:
            prefix, sha = pending.pop()
            tree = await self._tree(sha, is_deep=True)
            if tree.truncated:
                tree = await self._tree(sha, is_deep=False)
                pending += github_responses.folders(tree, prefix, branch_filter.patterns)
            if tree.truncated:
                raise _ListingFailed(f"The folder {prefix or '/'} has more entries than GitHub lists.")
            for batch in github_responses.batches(tree, prefix, branch_filter):
                yield batch

    async def _tree(self, sha: str, *, is_deep: bool) -> GitTree:
        url = f"{self._api_url}/git/trees/{sha}" + ("?recursive=1" if is_deep else "")
        good = self._good(await self._github.get(url, max_bytes=TREE_BYTES), "a part of the tree")
        return self._parsed(github_responses.parse_tree(good.body), "tree")

    def _good(self, answer: FetchResult, what: str) -> Fetched:
        match answer:
            case Fetched(status=200):
                return answer
            case Fetched(status=404):
                raise _ListingFailed(self._github.denial(404).text)
            case Fetched():
                raise _ListingFailed(f"GitHub says {answer.status} for {what} of {self._repo.full_name}.")
            case Deferred():
                raise _ListingFailed(f"{answer.reason}, again in {answer.wait_seconds:.0f} s")
            case Failed():
                raise _ListingFailed(answer.text)

    def _parsed(self, value: T | None, what: str) -> T:
        if value is None:
            raise _ListingFailed(f"GitHub's answer about the {what} of {self._repo.full_name} cannot be read.")
        return value

    def _memory(self, head: BranchHead, branch: str) -> dict[str, str]:
        return {
            "commit": head.commit,
            "etag": head.etag,
            "etag_url": head.url,
            "branch": branch,
            "scope": self._scope(),
        }

    def _scope(self) -> str:
        """Return a hash of what the listing depends on besides the commit: with new patterns everything is listed."""
        patterns = self._patterns
        inputs = (self._blobs_url, self._repo.branch, patterns.include, patterns.exclude, self._max_bytes)
        return hashlib.sha256(msgspec.json.encode(inputs)).hexdigest()[:16]

    # ── fetching ──

    async def fetch(self, item: Item, conditional: Mapping[str, str], slot: BodySlot | None = None) -> FetchResult:
        """Fetch one file, its blob sha as ETag; without any request if the listing says that we have it."""
        url = item.fetch_url
        if not url.startswith(self._blobs_url):
            request = FetchRequest(url, conditional=conditional, conditional_url=item.validators_url)
            return await self._fetcher.fetch(request, slot)
        headers = {name.lower(): value for name, value in conditional.items()}
        known = github_responses.sha_of_etag(headers.get("if-none-match", ""))
        if known and known == item.listed_version:
            return _unchanged(url, known)
        answer = await self._github.get(self._raw_url + url.removeprefix(self._blobs_url), accept="*/*", slot=slot)
        if not isinstance(answer, Fetched):
            return answer
        if answer.status == 404:
            return await self._missing(_at(answer, url))
        if answer.status != 200:
            return _at(answer, url)
        answer = await self._as_listed(item, answer, slot)
        if not isinstance(answer, Fetched):
            return answer
        sha = github_responses.blob_sha(answer.body)
        if sha == known:
            return _unchanged(url, sha)
        kind = github_responses.content_type(answer.header("content-type"), url, answer.body)
        return replace(_at(answer, url), headers={**answer.headers, "etag": f'"{sha}"', "content-type": kind})

    async def _as_listed(self, item: Item, answer: Fetched, slot: BodySlot | None) -> FetchResult:
        """Return the version that the listing saw: raw files come from a cache that may be five minutes behind."""
        listed = item.listed_version
        if not github_responses.is_sha(listed) or github_responses.blob_sha(answer.body) == listed:
            return answer
        exact = await self._github.get(f"{self._api_url}/git/blobs/{listed}", accept=RAW, slot=slot)
        # Gone from the repository, by a force push: then the listing is what is old.
        return answer if isinstance(exact, Fetched) and exact.status != 200 else exact

    async def _missing(self, answer: Fetched) -> FetchResult:
        """Return 404 only if the repository is there: raw files of one that we may not read are all 404."""
        if self._clock() >= self._present_until:
            about = await self._github.get(self._api_url, max_bytes=SMALL_BYTES)
            if not isinstance(about, Fetched):
                return about
            if about.status != 200:
                return self._github.denial(404) if about.status == 404 else _at(about, answer.url)
            self._present_until = self._clock() + PRESENT_SECONDS
        return answer


def _checked(repo: str, branch: str, web_url: str) -> Repository:
    repository = github_names.parse_repository(repo, web_url)
    if isinstance(repository, RejectedUrl):
        raise ValueError(f"{repository.reason} (got {repo[:80]!r})")
    if branch and not github_names.is_branch(branch):
        raise ValueError(f"A branch cannot have this name. (got {branch[:80]!r})")
    return repository._replace(branch=branch or repository.branch)


def _path_inside(address: str, blobs_url: str, branch: str) -> str:
    """Return the path in the repository of a file's URL; empty if it is of another repository or branch."""
    at = address.removeprefix(blobs_url)
    start = f"{github_names.quote_path(branch)}/" if branch else f"{at.partition('/')[0]}/"
    is_ours = address.startswith(blobs_url) and at.startswith(start)
    return unquote(at.removeprefix(start)) if is_ours else ""


def _at(answer: Fetched, url: str) -> Fetched:
    """Return the answer under the item's own URL, not the one that the bytes came from."""
    return replace(answer, url=url, final_url=url, hops=())


def _unchanged(url: str, sha: str) -> Fetched:
    return Fetched(url, url, 304, {"etag": f'"{sha}"'}, b"")


def _named_repository(url: str, web_url: str) -> dict[str, Any] | None:
    """Return the repository that an address on GitHub names, with branch and folder; None for any other page."""
    cleaned = clean_url(url)
    inside = None if isinstance(cleaned, RejectedUrl) else github_names.path_below(cleaned, web_url)
    if inside is None:
        return None
    owner, name, view, branch, *below = [*filter(None, inside.split("/")), *[""] * 4]
    repository = github_names.parse_repository(f"{owner}/{name}", web_url)
    is_other_page = owner in _NO_OWNERS or bool(view and not (view == "tree" and branch))
    if isinstance(repository, RejectedUrl) or is_other_page:
        return None
    folder = "/".join(_WILD.sub(r"[\g<0>]", part) for part in below if part)
    include = {"include": [f"/{folder}/**/{pattern}" for pattern in DOCUMENTS]} if folder else {}
    return {"repo": repository.full_name, "branch": branch, **include}
