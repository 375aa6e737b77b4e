"""A domain: a named set of sources, as a person writes it in `domain.json` or names it in one word.

Pure: text in, sources out. What cannot be used is one sentence that names its place (`web_sources[0].scope: …`) and
never repeats a value, which may be a secret.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import unquote

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo

from core import secrets, urls
from core.errors import FreshetError
from core.file_paths import file_identity
from core.models import Rejected, SourceKind
from core.patterns import DOCUMENTS, Patterns, UrlPatterns

GITHUB_URL = "https://github.com"
MAX_DEPTH = 10
MAX_PAGES = 10_000

_SLUG = r"^[a-z0-9][a-z0-9_-]{0,62}$"
_DERIVED_CHARS = 50
_WILD = re.compile(r"[*?\[]")
_NOT_YET = ("file_sources", "list_sources", "sitepage_sources")
_REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}", re.ASCII)
_BRANCH = re.compile(r"(?!.*\.\.)[^\s~^:?*\[\\\x00-\x20\x7f]{0,255}")
# First parts of a path on github.com that are no owner of a repository.
_NO_OWNERS = frozenset({"about", "apps", "collections", "enterprise", "explore", "features", "login", "marketplace"})
_NO_OWNERS |= {"orgs", "pricing", "search", "settings", "sponsors", "topics", "trending", "users"}


class DomainFileError(FreshetError):
    """A domain cannot be read. The sentence names the place."""


@dataclass(frozen=True, slots=True)
class SourceConfig:
    """One source as it is kept: everything that its program needs, as JSON, and no secret."""

    sid: str
    """`<domain>.<source>`: the name in all its keys."""
    kind: SourceKind
    domain: str
    config: Mapping[str, Any]

    def to_json(self) -> str:
        """One line, the same for the same source."""
        fields = {"sid": self.sid, "kind": str(self.kind), "domain": self.domain, "config": dict(self.config)}
        return json.dumps(fields, sort_keys=True, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What `to_json` wrote."""
        try:
            read = json.loads(text)
            return cls(read["sid"], SourceKind(read["kind"]), read["domain"], dict(read["config"]))
        except (ValueError, KeyError, TypeError):
            raise DomainFileError("A stored source cannot be read; add its domain again.") from None


# ── what values may be ──────────────────────────────────────────────────────────────────────────


def _clean_url(url: str) -> str:
    if secrets.without_credentials(url) != url:
        raise ValueError("holds a secret in its query; Freshet keeps no secrets in URLs")
    cleaned = urls.clean(url)
    if not isinstance(cleaned, Rejected):
        return cleaned
    if cleaned.reason == "credentials":
        raise ValueError("holds a user name or password; Freshet keeps no secrets in URLs")
    raise ValueError(f"is no http or https URL that can be read ({cleaned.reason.replace('_', ' ')})")


def _absolute_path(path: str, info: ValidationInfo) -> str:
    """Seen from the folder of domain.json; `~` is the home of whoever runs us."""
    context = info.context or {}
    if path == "~" or path.startswith("~/"):
        path = f"{context.get('home') or Path.home()}{path[1:]}"
    elif path.startswith("~"):
        raise ValueError("may begin with ~/ but not with another user's home")
    if re.match(r"(?!file:)[a-z]+://", path, re.IGNORECASE):
        raise ValueError("is an address, not a folder")
    if not re.match(r"[/\\]|[A-Za-z]:[/\\]|file:", path):
        path = f"{context.get('folder', '')}/{path}"
    return file_identity(path).address


def _repository(repo: str) -> str:
    name = repo.removeprefix(f"{GITHUB_URL}/").removesuffix("/").removesuffix(".git")
    if not _REPO.fullmatch(name):
        raise ValueError("is no repository; write owner/name")
    return name


def _branch(branch: str) -> str:
    if not _BRANCH.fullmatch(branch):
        raise ValueError("is no name of a branch")
    return branch


def _globs(patterns: tuple[str, ...]) -> tuple[str, ...]:
    Patterns(patterns)
    return patterns


def _url_globs(patterns: tuple[str, ...]) -> tuple[str, ...]:
    UrlPatterns(patterns)
    return patterns


Slug = Annotated[str, Field(pattern=_SLUG)]
Globs = Annotated[tuple[str, ...], AfterValidator(_globs)]
UrlGlobs = Annotated[tuple[str, ...], AfterValidator(_url_globs)]


class _Source(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    id: Slug | None = Field(default=None, validation_alias=AliasChoices("id", "source_id"))
    interval_seconds: float | None = Field(default=None, gt=0)
    """How often it is listed; None takes the setting."""

    def config(self) -> dict[str, Any]:
        """As JSON, without its name."""
        return self.model_dump(mode="json", exclude={"id"})


class WebSource(_Source):
    """A web site, or a part of it."""

    url: Annotated[str, AfterValidator(_clean_url)]
    scope: Literal["subpages", "host", "domain"] = "subpages"
    include: UrlGlobs = ()
    exclude: UrlGlobs = ()
    max_depth: int = Field(default=MAX_DEPTH, ge=0, le=1_000)
    max_pages: int = Field(default=MAX_PAGES, ge=1, le=10_000_000)
    sitemap: bool = True

    def derived_id(self) -> str:
        """Host and path."""
        return _slug(re.sub(r"^https?://(www\.)?", "", self.url.partition("?")[0]))


class FolderSource(_Source):
    """A folder on a disk or a mounted share."""

    path: Annotated[str, Field(min_length=1), AfterValidator(_absolute_path)]
    include: Globs = DOCUMENTS
    exclude: Globs = ()

    def derived_id(self) -> str:
        """The folder's own name."""
        return _slug(self.path.rpartition("/")[2])


class GithubSource(_Source):
    """The documents of a repository, and its wiki if asked for."""

    repo: Annotated[str, AfterValidator(_repository)]
    branch: Annotated[str, AfterValidator(_branch)] = ""
    """Empty: the default branch."""
    include: Globs = DOCUMENTS
    exclude: Globs = ()
    wiki: bool = False

    def derived_id(self) -> str:
        """Owner and name."""
        return _slug(self.repo)


Source = WebSource | FolderSource | GithubSource
_KINDS: dict[type[Source], SourceKind] = {
    WebSource: SourceKind.WEB,
    FolderSource: SourceKind.FOLDER,
    GithubSource: SourceKind.GITHUB,
}


class Domain(BaseModel):
    """A named set of sources."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    id: Slug = Field(validation_alias=AliasChoices("id", "domain_id"))
    name: str = Field(default="", max_length=200)
    description: str = Field(default="", max_length=10_000)
    web_sources: tuple[WebSource, ...] = ()
    folder_sources: tuple[FolderSource, ...] = ()
    github_sources: tuple[GithubSource, ...] = ()

    def sources(self, web_url: str = GITHUB_URL) -> list[SourceConfig]:
        """All its sources in order, each with a name of its own; a wiki is a web source beside its repository."""
        configs: list[SourceConfig] = []
        for source_id, source in zip(self._ids(), self._all(), strict=True):
            sid = f"{self.id}.{source_id}"
            configs.append(SourceConfig(sid, _KINDS[type(source)], self.id, source.config()))
            if isinstance(source, GithubSource) and source.wiki:
                wiki = WebSource(
                    url=f"{web_url.rstrip('/')}/{source.repo}/wiki",
                    sitemap=False,
                    interval_seconds=source.interval_seconds,
                )
                configs.append(SourceConfig(f"{sid}-wiki", SourceKind.WEB, self.id, wiki.config()))
        return configs

    def _all(self) -> tuple[Source, ...]:
        return (*self.web_sources, *self.folder_sources, *self.github_sources)

    def _ids(self) -> Iterator[str]:
        """Given names as they are; the others from what they point at, numbered where that is not enough."""
        taken = {source.id for source in self._all() if source.id}
        taken |= {f"{name}-wiki" for name in taken}
        for source in self._all():
            name, number = source.id or source.derived_id(), 1
            while not source.id and {name, f"{name}-wiki"} & taken:
                number += 1
                name = f"{source.derived_id()}-{number}"
            taken |= {name, f"{name}-wiki"}
            yield name


# ── reading ─────────────────────────────────────────────────────────────────────────────────────


def parse(text: str, folder: str, home: str | None = None) -> Domain:
    """The domain of a domain.json in this folder; without an `id` it is called like the folder (spec 002).

    Raises DomainFileError.
    """
    read = _object(text)
    for key in _NOT_YET:
        if read.get(key):
            raise DomainFileError(f"{key}: this version cannot read SharePoint yet; remove it to use the others.")
    kept = {key: value for key, value in read.items() if key not in _NOT_YET}
    if not {"id", "domain_id"} & kept.keys():
        kept["id"] = _slug(folder.rstrip("/\\").replace("\\", "/").rpartition("/")[2])
    return _domain(kept, folder, home)


def quick(text: str, folder: str, home: str | None = None, web_url: str = GITHUB_URL) -> Domain:
    """A domain of one source: a web address, a GitHub repository's address, or a folder. Raises DomainFileError."""
    said = text.strip()
    if said.lower().startswith("www."):
        said = f"https://{said}"
    if not re.match(r"https?:", said, re.IGNORECASE):
        kind, source = "folder_sources", {"path": said}
    elif found := _github(said, web_url):
        kind, source = "github_sources", found
    else:
        kind, source = "web_sources", {"url": said}
    named = _domain({"id": "quick", kind: [source]}, folder, home)
    return named.model_copy(update={"id": next(named._ids()), "name": _title(named)})


def renamed(domain: Domain, name: str) -> Domain:
    """The same domain under a name of one's own. Raises DomainFileError."""
    if not re.fullmatch(_SLUG, name):
        raise DomainFileError("id: is no name; use a-z, 0-9, _ and -, at most 63 characters.")
    return domain.model_copy(update={"id": name})


def _object(text: str) -> dict[str, Any]:
    """The JSON object, each key once."""
    try:
        read = json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_each_once)
    except json.JSONDecodeError as error:
        raise DomainFileError(f"This is no JSON: {error.msg} in line {error.lineno}, column {error.colno}.") from None
    except RecursionError:
        raise DomainFileError("This is no domain: it is nested too deeply.") from None
    if not isinstance(read, dict):
        raise DomainFileError('A domain is a JSON object: {"id": "…", "web_sources": […]}.')
    return read


def _each_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    repeated = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
    if repeated:
        raise DomainFileError(f"{repeated[0][:80]}: is there twice.")
    return dict(pairs)


def _domain(read: Mapping[str, Any], folder: str, home: str | None) -> Domain:
    try:
        # By way of JSON: only there are lists as good as tuples to a strict reader.
        domain = Domain.model_validate_json(json.dumps(read), context={"folder": folder, "home": home})
    except ValidationError as error:
        raise DomainFileError(_sentence(error)) from None
    _refuse_repeats(domain)
    return domain if domain.name else domain.model_copy(update={"name": domain.id})


def _refuse_repeats(domain: Domain) -> None:
    if not domain._all():
        raise DomainFileError("This domain has no sources; give it web_sources, folder_sources or github_sources.")
    names: set[str] = set()
    for key in ("web_sources", "folder_sources", "github_sources"):
        for at, source in enumerate(getattr(domain, key)):
            given = [source.id, f"{source.id}-wiki"] if getattr(source, "wiki", False) else [source.id]
            if source.id and names & set(given):
                raise DomainFileError(f"{key}[{at}].id: {source.id} is the name of another source of this domain.")
            names |= set(given) - {None}


def _sentence(error: ValidationError) -> str:
    """The first problem, by its place, without the value; and how many more there are."""
    problems = error.errors(include_url=False, include_input=False)
    first = problems[0]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).removeprefix(".")
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    said = _said(first["type"], first["msg"])
    return f"{place[:200]}: {said}{more}." if place else f"{said}{more}."


def _said(kind: str, message: str) -> str:
    known = {
        "extra_forbidden": "is no key that Freshet knows",
        "missing": "is missing",
        "string_pattern_mismatch": "is no name; use a-z, 0-9, _ and -, at most 63 characters",
    }
    return known.get(kind) or message.removeprefix("Value error, ").removesuffix(".").replace("Input should", "should")


# ── names ───────────────────────────────────────────────────────────────────────────────────────


def _slug(text: str) -> str:
    """A name made of what something is called; never empty."""
    plain = re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-_")[:_DERIVED_CHARS].strip("-_")
    return plain or "source"


def _title(domain: Domain) -> str:
    source = domain._all()[0]
    if isinstance(source, WebSource):
        return urls.display(source.url)[:200]
    return (source.repo if isinstance(source, GithubSource) else source.path)[:200]


def _github(url: str, web_url: str) -> dict[str, Any]:
    """The repository that an address on GitHub names, with branch and folder; empty for all its other pages."""
    cleaned = urls.clean(url)
    found = None if isinstance(cleaned, Rejected) else urls.parts(cleaned)
    if found is None or _server(url) != _server(web_url):
        return {}
    owner, name, view, branch, *below = [*filter(None, unquote(found.path).split("/")), *[""] * 4]
    repo = f"{owner}/{name.removesuffix('.git')}"
    if owner in _NO_OWNERS or not _REPO.fullmatch(repo) or (view and not (view == "tree" and branch)):
        return {}
    folder = "/".join(_WILD.sub(r"[\g<0>]", part) for part in below if part)
    include = {"include": [f"/{folder}/**/{pattern}" for pattern in DOCUMENTS]} if folder else {}
    return {"repo": repo, "branch": branch, **include}


def _server(url: str) -> str:
    """Host and port, whether by http or https."""
    return urls.origin_of(url).partition("://")[2].removeprefix("www.")
