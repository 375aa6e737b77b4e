"""Names and addresses of repositories, branches and files on GitHub: what is one, and how a URL has it."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote, unquote

from core.models import RejectedUrl
from core.urls.normalise import clean_url, split_url

# All that RFC 3986 lets stand in a path; so do browsers and GitHub's own links, and escaped it would be another URL.
_PATH_SAFE = "/!$&'()*+,;=:@~"
_OWNER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}")
# What `git check-ref-format` refuses.
_NO_BRANCH = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|//|@\{|^[/.-]|/\.|[/.]$|\.lock(/|$)|^@$")


class Repository(NamedTuple):
    """A repository, and the branch someone named; empty means its default branch."""

    owner: str
    name: str
    branch: str = ""

    @property
    def full_name(self) -> str:
        """`owner/name`, as GitHub writes it."""
        return f"{self.owner}/{self.name}"


def parse_repository(text: str, web_url: str) -> Repository | RejectedUrl:
    """Read `owner/name` or a repository's URL, also with /tree/<branch>; or return a sentence that says why not."""
    path = text.strip()
    if "://" in path:
        inside = path_below(path, web_url)
        if inside is None:
            return RejectedUrl(text, f"This is not the URL of a repository at {web_url}.")
        path = inside
    owner, _, rest = path.strip("/").partition("/")
    name, _, rest = rest.partition("/")
    kind, _, branch = rest.partition("/")
    repository = Repository(owner, name.removesuffix(".git"), branch)
    is_named = _OWNER.fullmatch(repository.owner) and _NAME.fullmatch(repository.name)
    if not is_named or (rest and kind != "tree"):
        return RejectedUrl(text, "A repository is written owner/name, or as its URL.")
    if rest and not is_branch(branch):
        return RejectedUrl(text, "A branch cannot have this name.")
    return repository


def is_branch(name: str) -> bool:
    return 0 < len(name) <= 255 and _NO_BRANCH.search(name) is None


def path_below(url: str, web_url: str) -> str | None:
    """Return the path of a URL below the web address, unescaped; www. and the scheme make no difference."""
    address, web = split_url(url), split_url(web_url)
    if address is None or web is None or address.host.removeprefix("www.") != web.host:
        return None
    is_same_port = address.port == web.port or {address.port, web.port} == {80, 443}
    base = web.path.rstrip("/") + "/"
    return unquote(address.path[len(base) :]) if is_same_port and address.path.startswith(base) else None


def quote_path(path: str) -> str:
    """Quote a path or branch for a URL. GitHub wants the slashes of a branch as they are."""
    return quote(path, safe=_PATH_SAFE)


def base_url(url: str, setting: str) -> str:
    """Return a base URL without slash at its end; raise ValueError, a sentence that names the setting."""
    cleaned = clean_url(url)
    if isinstance(cleaned, RejectedUrl) or "?" in cleaned:
        raise ValueError(f"{setting} is not a URL that others can begin with.")
    return cleaned.rstrip("/")
