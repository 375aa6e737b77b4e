"""GitHub on loopback: the part of its REST API that we ask, raw files and web pages, with shas computed as git does.

    async with GithubServer(token="t") as server:
        server.repository("o/r")
        server.file("docs/a.md", b"# A")
        settings = settings.model_copy(update=server.settings())
        ...
        assert (server.paths, server.quota_used) == (["/repos/o/r/commits/HEAD"], 1)

Three hosts as in reality (API, raw, web), or one with paths as on GitHub Enterprise. Verbs act on the repository and
branch named last; a commit is made when somebody looks. `server.web` is the FakeWeb below: what is scripted there wins.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple, Self
from urllib.parse import unquote

from core.secret_text import SecretStr
from tests.web import FakeWeb
from tests.web_replies import Exchange, Seen

API, RAW, WEB = "127.0.0.1", "127.0.0.2", "127.0.0.3"
MANY = 5_000


def sha(kind: str, content: bytes) -> str:
    """git's name of an object."""
    return hashlib.sha1(f"{kind} {len(content)}\0".encode() + content).hexdigest()


class Node(NamedTuple):
    """An entry of a tree."""

    name: str
    mode: str
    sha: str
    size: int = 0

    @property
    def type(self) -> str:
        return {"040000": "tree", "160000": "commit"}.get(self.mode, "blob")


class Reply(NamedTuple):
    status: int
    body: bytes = b""
    headers: dict[str, str] = {}  # noqa: RUF012 - never written to


class Branch:
    """Files by path, and the commit they make."""

    def __init__(self, files: dict[str, tuple[str, bytes]] | None = None) -> None:
        self.files = dict(files or {})
        self.trees: dict[str, list[Node]] = {}
        self.commits: dict[str, str] = {}
        self._head = self._head_tree = ""

    def head(self) -> str:
        """The newest commit; a new one if the files changed."""
        tree = self._write(self.files)
        if tree != self._head_tree:
            parent = f"parent {self._head}\n" if self._head else ""
            who = "A <a@example.org> 1700000000 +0000"
            text = f"tree {tree}\n{parent}author {who}\ncommitter {who}\n\nchange\n"
            self._head, self._head_tree = sha("commit", text.encode()), tree
            self.commits[self._head] = tree
        return self._head

    def _write(self, files: dict[str, tuple[str, bytes]]) -> str:
        folders: dict[str, dict[str, tuple[str, bytes]]] = {}
        nodes: list[Node] = []
        for path, (mode, content) in files.items():
            name, slash, rest = path.partition("/")
            if slash:
                folders.setdefault(name, {})[rest] = (mode, content)
            elif mode == "160000":
                nodes.append(Node(name, mode, content.decode()))
            else:
                nodes.append(Node(name, mode, sha("blob", content), len(content)))
        nodes += [Node(name, "040000", self._write(inside)) for name, inside in folders.items()]
        nodes.sort(key=lambda node: (node.name + "/" * (node.type == "tree")).encode())
        lines = (f"{node.mode.lstrip('0')} {node.name}\0".encode() + bytes.fromhex(node.sha) for node in nodes)
        name = sha("tree", b"".join(lines))
        self.trees[name] = nodes
        return name

    def nodes(self, tree: str, deep: bool, prefix: str = "") -> list[tuple[str, Node]]:
        """Entries with their paths, in git's order."""
        found = []
        for node in self.trees[tree]:
            found.append((prefix + node.name, node))
            if deep and node.type == "tree":
                found += self.nodes(node.sha, deep, f"{prefix}{node.name}/")
        return found


class Repo:
    """A repository with its branches."""

    def __init__(self, name: str, default_branch: str, is_private: bool) -> None:
        self.name = name
        self.default_branch = default_branch
        self.is_private = is_private
        self.branches = {default_branch: Branch()}
        self.blobs: dict[str, bytes] = {}
        self.raw_cache: dict[str, bytes] = {}

    def branch_of_tree(self, name: str) -> tuple[Branch, str] | None:
        """Which branch knows this commit or tree, and the tree's sha."""
        for branch in self.branches.values():
            branch.head()
            tree = branch.commits.get(name, name)
            if tree in branch.trees:
                return branch, tree
        return None

    def find(self, ref: str) -> Branch | None:
        return self.branches.get(self.default_branch if ref == "HEAD" else ref)


class GithubServer:
    """See the top of the file."""

    def __init__(self, token: str = "", *, enterprise: bool = False) -> None:
        self.token = token
        self.web = FakeWeb(*([API] if enterprise else [API, RAW, WEB]))
        self.web.fallback = self._reply
        self._is_enterprise = enterprise
        self._repos: dict[str, Repo] = {}
        self._renamed: dict[str, str] = {}
        self._repo = Repo("", "main", False)
        self._branch = Branch()
        self._most_entries = 100_000
        self._limited: Reply | None = None
        self._remaining = MANY
        self._reset = 0.0
        self.quota_used = 0

    # ── verbs ──

    def repository(self, name: str, default_branch: str = "main", *, private: bool = False) -> Repo:
        """A repository; what follows is about its default branch."""
        self._repo = self._repos[name] = Repo(name, default_branch, private)
        self._branch = self._repo.branches[default_branch]
        return self._repo

    def rename(self, old: str, new: str) -> None:
        """Who asks the API for the old name is sent to the new one."""
        self._renamed[old] = new

    def branch(self, name: str) -> None:
        """A branch as the current one is now; what follows is about it."""
        self._branch = self._repo.branches.setdefault(name, Branch(self._branch.files))

    def file(self, path: str, content: bytes, mode: str = "100644") -> str:
        """A new or changed file; its blob sha."""
        self._branch.files[path] = (mode, content)
        self._repo.blobs[sha("blob", content)] = content
        return sha("blob", content)

    def remove(self, path: str) -> None:
        del self._branch.files[path]

    def symlink(self, path: str, target: str) -> None:
        self.file(path, target.encode(), "120000")

    def submodule(self, path: str) -> None:
        self._branch.files[path] = ("160000", sha("commit", path.encode()).encode())

    def cached_raw(self, path: str, content: bytes) -> None:
        """The raw host still has this version of `branch/path`."""
        self._repo.raw_cache[path] = content

    def truncate_above(self, entries: int) -> None:
        """Recursive trees have no more entries than this."""
        self._most_entries = entries

    def rate_limit(self, remaining: int, reset: float) -> None:
        """So many requests are left until then (epoch seconds)."""
        self._remaining, self._reset = remaining, reset

    def refuse(self, status: int, message: str, **headers: str) -> None:
        """Every request to the API and to raw files is answered like this: secondary limits, blocks."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._limited = Reply(status, json.dumps({"message": message}).encode(), named)

    def tree_path(self, folder: str) -> str:
        """Where the API has this folder of the current branch, for scripting `web`."""
        tree = self._branch.commits[self._branch.head()]
        for name in filter(None, folder.split("/")):
            tree = next(node.sha for node in self._branch.trees[tree] if node.name == name)
        return f"{self._api_path}/repos/{self._repo.name}/git/trees/{tree}"

    # ── looking back ──

    @property
    def requests(self) -> list[Seen]:
        return self.web.requests

    @property
    def paths(self) -> list[str]:
        """What was asked, in order, without the API's own path."""
        return [seen.path.removeprefix(self._api_path) for seen in self.requests]

    @property
    def api_url(self) -> str:
        return self.web.url(self._api_path, API)

    @property
    def raw_url(self) -> str:
        return self.web.url("/raw" if self._is_enterprise else "", API if self._is_enterprise else RAW)

    @property
    def web_url(self) -> str:
        return self.web.url("", API if self._is_enterprise else WEB)

    def settings(self) -> dict[str, Any]:
        """Changes of the settings that make this server their GitHub."""
        return {
            "github_api_url": self.api_url,
            "github_raw_url": self.raw_url,
            "github_web_url": self.web_url,
            "github_token": SecretStr(self.token) if self.token else None,
            "fetch_allowed_hosts": ("127.0.0.0/8",),
        }

    async def __aenter__(self) -> Self:
        await self.web.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.web.__aexit__(*error)

    # ── answering ──

    @property
    def _api_path(self) -> str:
        return "/api/v3" if self._is_enterprise else ""

    async def _reply(self, exchange: Exchange) -> None:
        reply = self._answer(exchange.seen)
        await exchange.answer(reply.status, reply.headers, reply.body)

    def _answer(self, seen: Seen) -> Reply:
        host, path = seen.headers["host"].partition(":")[0], unquote(seen.path)
        if self._is_enterprise:
            host = API if path.startswith("/api/v3/") else RAW if path.startswith("/raw/") else WEB
            path = path.removeprefix("/api/v3").removeprefix("/raw") if host != WEB else path
        if host == WEB:
            return Reply(404, b"no such page", {"Content-Type": "text/html"})
        if self._limited:
            return self._limited
        return self._raw(seen, path) if host == RAW else self._counted(seen, path)

    def _is_known(self, seen: Seen) -> bool:
        return bool(self.token) and seen.headers.get("authorization") == f"Bearer {self.token}"

    def _counted(self, seen: Seen, path: str) -> Reply:
        if self._remaining <= 0:
            reply = Reply(403, b'{"message": "API rate limit exceeded"}')
        else:
            reply = self._api(seen, path)
            # GitHub counts a 304 too, unless the request was authorised.
            if reply.status != 304 or not self._is_known(seen):
                self.quota_used += 1
                self._remaining -= 1
        limits = {"X-RateLimit-Remaining": str(self._remaining), "X-RateLimit-Reset": f"{self._reset:.0f}"}
        return reply._replace(headers={"Content-Type": "application/json; charset=utf-8", **limits, **reply.headers})

    def _api(self, seen: Seen, path: str) -> Reply:
        if "authorization" in seen.headers and not self._is_known(seen):
            return Reply(401, b'{"message": "Bad credentials"}')
        _, _, owner, name, *rest = [*path.split("/", 4), "", "", ""]
        if new := self._renamed.get(f"{owner}/{name}"):
            return Reply(301, b"{}", {"Location": seen.target.replace(f"/repos/{owner}/{name}", f"/repos/{new}", 1)})
        repo = self._repos.get(f"{owner}/{name}")
        if not path.startswith("/repos/") or repo is None or (repo.is_private and not self._is_known(seen)):
            return Reply(404, b'{"message": "Not Found"}')
        what, _, which = rest[0].partition("/")
        if what == "git":
            what, _, which = which.partition("/")
        found = {"": self._about, "commits": self._commit, "trees": self._tree, "blobs": self._blob}.get(what)
        return found(seen, repo, which) if found else Reply(404, b'{"message": "Not Found"}')

    def _about(self, seen: Seen, repo: Repo, _: str) -> Reply:
        about = {"full_name": repo.name, "private": repo.is_private, "default_branch": repo.default_branch}
        return _with_etag(seen, json.dumps(about).encode())

    def _commit(self, seen: Seen, repo: Repo, ref: str) -> Reply:
        branch = repo.find(ref)
        if branch is None:
            return Reply(422, json.dumps({"message": f"No commit found for SHA: {ref}"}).encode())
        if not branch.files and not branch.commits:
            return Reply(409, b'{"message": "Git Repository is empty."}')
        head = branch.head()
        if seen.headers.get("accept") == "application/vnd.github.sha":
            return _with_etag(seen, head.encode(), f'"{head}"')
        return _with_etag(seen, json.dumps({"sha": head, "commit": {"tree": {"sha": branch.commits[head]}}}).encode())

    def _tree(self, seen: Seen, repo: Repo, name: str) -> Reply:
        found = repo.branch_of_tree(name)
        if found is None:
            return Reply(404, b'{"message": "Not Found"}')
        branch, tree = found
        is_deep = "recursive" in seen.query
        nodes = branch.nodes(tree, is_deep)
        is_cut = is_deep and len(nodes) > self._most_entries
        entries = [
            {"path": path, "mode": node.mode, "type": node.type, "sha": node.sha}
            | ({"size": node.size} if node.type == "blob" else {})
            for path, node in nodes[: self._most_entries if is_cut else None]
        ]
        return _with_etag(seen, json.dumps({"sha": tree, "tree": entries, "truncated": is_cut}).encode())

    def _blob(self, _: Seen, repo: Repo, name: str) -> Reply:
        if name not in repo.blobs:
            return Reply(404, b'{"message": "Not Found"}')
        return Reply(200, repo.blobs[name], {"Content-Type": "application/vnd.github.raw+json; charset=utf-8"})

    def _raw(self, seen: Seen, path: str) -> Reply:
        _, owner, name, rest = [*path.split("/", 3), "", ""][:4]
        repo = self._repos.get(f"{owner}/{name}")
        missing = Reply(404, b"404: Not Found", {"Content-Type": "text/plain; charset=utf-8"})
        if repo is None or (repo.is_private and not self._is_known(seen)):
            return missing
        body = repo.raw_cache.get(rest, _file_at(repo, rest))
        if body is None:
            return missing
        return Reply(200, body, {"Content-Type": "text/plain; charset=utf-8", "ETag": f'W/"{len(body)}"'})


def _file_at(repo: Repo, rest: str) -> bytes | None:
    """The file of `branch/path`; a branch may have slashes itself."""
    for name, branch in repo.branches.items():
        if rest.startswith(f"{name}/") and rest.removeprefix(f"{name}/") in branch.files:
            return branch.files[rest.removeprefix(f"{name}/")][1]
    return None


def _with_etag(seen: Seen, body: bytes, etag: str = "") -> Reply:
    etag = etag or f'W/"{hashlib.sha256(body).hexdigest()}"'
    return Reply(304 if seen.headers.get("if-none-match") == etag else 200, body, {"ETag": etag})
