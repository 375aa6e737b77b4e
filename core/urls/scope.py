"""Decide which URLs belong to a web source. Each refusal has a reason, for people.

Pure. http and https are one site here; `www.` and the bare host are two, as in docs/urls.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from enum import StrEnum

from core.models import RejectedUrl
from core.urls import spider_traps
from core.urls.normalise import UrlParts, clean_url, normalise_url, registrable_domain, split_url
from core.urls.path_patterns import UrlPatterns
from core.value_class import value_class


class ScopeKind(StrEnum):
    """How much a source covers around its root."""

    SUBPAGES = "subpages"
    HOST = "host"
    DOMAIN = "domain"


NO_ADDRESS = "no web address"
OUTSIDE = {
    ScopeKind.SUBPAGES: "outside subpages",
    ScopeKind.HOST: "other host",
    ScopeKind.DOMAIN: "other domain",
}
EXCLUDED, NOT_INCLUDED, TOO_DEEP, NO_DOCUMENT = "excluded", "not included", "too deep", "no document"
NOT_EMBEDDED = "type not embedded"
OUT_OF_SCOPE = frozenset({NO_ADDRESS, *OUTSIDE.values(), EXCLUDED, NOT_INCLUDED, TOO_DEEP, NOT_EMBEDDED})
"""Reasons that follow from the source's configuration; all others say something about the URL itself."""

# Endings of what has no text to read. Only what no page is named after: `.com`, `.net`, `.app`, `.ts` are not here.
_NO_DOCUMENT = frozenset(
    {
        *("apng", "avif", "bmp", "cur", "gif", "heic", "ico", "jfif", "jpe", "jpeg", "jpg", "png", "psd", "svg"),
        *("svgz", "tif", "tiff", "webp"),
        *("7z", "bz2", "cab", "gz", "lz", "lzma", "rar", "tar", "tbz2", "tgz", "txz", "xz", "zip", "zst"),
        *("3gp", "aac", "avi", "flac", "flv", "m3u8", "m4a", "m4v", "mid", "midi", "mkv", "mov", "mp2", "mp3", "mp4"),
        *("mpeg", "mpg"),
        *("oga", "ogg", "ogv", "opus", "wav", "weba", "webm", "wma", "wmv"),
        *("css", "less", "map", "scss", "wasm"),
        *("eot", "otf", "ttf", "woff", "woff2"),
        *("apk", "bin", "crx", "deb", "dll", "dmg", "exe", "img", "ipa", "iso", "jar", "msi", "pkg", "rpm"),
        *("vsix", "war", "whl", "xpi"),
    }
)
# `.js` ends the names of things people write about (en.wikipedia.org/wiki/Node.js), so its folder decides.
_SCRIPTS = frozenset({"js", "mjs"})
_SCRIPT_FOLDERS = frozenset(
    {
        *("_next", "_nuxt", "_static", "assets", "build", "bundles", "cdn", "dist", "javascript", "javascripts"),
        *("js", "lib", "libs"),
        *("node_modules", "public", "script", "scripts", "static", "vendor", "wp-content", "wp-includes"),
    }
)
# A root that ends so is a page in its folder; any other last segment is a folder's name (`/v1.2`, `/docs`).
_PAGE_ENDINGS = frozenset(
    {
        *("asp", "aspx", "cfm", "cgi", "do", "htm", "html", "jsp", "jspx", "md", "pdf", "php", "php5", "pl", "rst"),
        *("shtml", "txt", "xhtml", "xml"),
    }
)
_DEFAULT_PORTS = {"http": 80, "https": 443}
MAX_LANDINGS = 20
OTHER_DOMAIN, ABOVE_ROOT = "another domain", "above what it covers"


@value_class
class RootUrl:
    """The root of a source, or where it redirects to, and what is covered from there."""

    url: str
    parts: UrlParts
    domain: str
    folder: str

    @classmethod
    def parse(cls, url: str) -> RootUrl:
        """Raises ValueError, with a sentence, for what is not a web address."""
        cleaned = clean_url(url)
        parts = None if isinstance(cleaned, RejectedUrl) else split_url(cleaned)
        if isinstance(cleaned, RejectedUrl) or parts is None:
            raise ValueError("The root of a web source must be an http or https URL.")
        return cls(cleaned, parts, registrable_domain(parts.host), _folder(_normal_path(parts)))

    @property
    def name(self) -> str:
        """The last name in its path; empty for a front page."""
        return self.parts.path.rstrip("/").rpartition("/")[2]

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder, or the first page of one."""
        return self.name.partition(".")[0] in ("index", "default") or self.folder.startswith(_normal_path(self.parts))

    def is_same_page(self, parts: UrlParts) -> bool:
        """Do these parts name the same page?"""
        same_path = parts.path.rstrip("/") == self.parts.path.rstrip("/")
        return same_path and parts.query == self.parts.query and _is_same_site(parts, self.parts)

    def covers(self, parts: UrlParts, kind: ScopeKind) -> bool:
        """Return whether a source of this kind that starts here covers these parts."""
        if kind is ScopeKind.DOMAIN:
            return registrable_domain(parts.host) == self.domain
        if not _is_same_site(parts, self.parts):
            return False
        if kind is ScopeKind.HOST:
            return True
        path = _normal_path(parts)
        return path.startswith(self.folder) or f"{path}/" == self.folder


@value_class
class Judgement:
    """What the configuration of a source says about an address."""

    reason: str = ""
    """Why it is not taken; empty if it is."""
    rule: str = ""
    """The part of the configuration that says so, for people."""


class Scope:
    """What one web source covers. `root` is always part of it.

    A root may redirect elsewhere (`/stable/` to `/1.2/`): its landing is covered as well; a former landing is no longer
    followed, but its pages are not given up. Raises ValueError, with a sentence, for a bad root or kind.
    """

    def __init__(
        self,
        root: str,
        kind: str = ScopeKind.SUBPAGES,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        max_depth: int | None = None,
        *,
        now: float = 0.0,
        landings: Sequence[str] = (),
    ) -> None:
        """Args:

        now: when the run began; 0: calendars are not judged (`spider_traps.trap_reason`).
        landings: where the root has redirected to so far, the present landing last.
        """
        self._root = RootUrl.parse(root)
        self.root = self._root.url
        self.kind = ScopeKind(kind)
        self.max_depth = max_depth
        self.landings = tuple(landings)
        self._root_slashes = _slashes(self.root.partition("?")[0])
        self._roots = (self._root, *map(RootUrl.parse, landings))
        self._present = self._roots[-1]
        self._patterns = tuple(include), tuple(exclude)
        self.version = _version([self.root, *landings[-1:]], self.kind, include, exclude, max_depth)
        self._include, self._exclude = UrlPatterns(include), UrlPatterns(exclude)
        self._now = now

    def rejection_reason(self, url: str, depth: int) -> str:
        """Return why the URL does not belong to the source at this depth; empty if it does."""
        parts = split_url(url)
        if parts is None:
            return NO_ADDRESS
        if self._root.is_same_page(parts):
            return ""
        if not any(root.covers(parts, self.kind) for root in (self._root, self._present)):
            return OUTSIDE[self.kind]
        if self._exclude.matches(url):
            return EXCLUDED
        if self._include and not self._include.matches(url):
            return NOT_INCLUDED
        if self.max_depth is not None and depth > self.max_depth:
            return TOO_DEEP
        return NO_DOCUMENT if _is_no_document(parts.path) else spider_traps.trap_reason(url, self._now)

    def judge(self, url: str, depth: int) -> Judgement | None:
        """Return why the URL does not belong to the source, and by which rule; None: it is of another site."""
        reason, parts = self.rejection_reason(url, depth), split_url(url)
        if parts is None or registrable_domain(parts.host) not in {root.domain for root in self._roots}:
            return None
        rules = {
            OUTSIDE[self.kind]: f"scope {self.kind} of {self.root}",
            EXCLUDED: f"exclude {self._exclude.first_match(url)}",
            NOT_INCLUDED: f"include {', '.join(self._patterns[0])}",
            TOO_DEEP: f"max_depth {self.max_depth}",
            NO_DOCUMENT: f"names that end in .{parts.path.rpartition('.')[2].lower()} have no text",
        }
        return Judgement(reason, rules.get(reason, f"spider trap: {reason}") if reason else "")

    # ── a root that redirects ──

    @property
    def landing(self) -> str:
        """Where the root leads now."""
        return self._present.url

    def is_root(self, url: str) -> bool:
        """Return whether a clean URL is the address of the root."""
        # Mostly it has more or fewer folders; to count them takes a tenth of the time of a parse.
        if "?" not in url and _slashes(url) != self._root_slashes:
            return False
        parts = split_url(url)
        return parts is not None and self._root.is_same_page(parts)

    def is_in_landing(self, url: str) -> bool:
        """Return whether it lies where the root leads now."""
        parts = split_url(url)
        return parts is not None and self._present.covers(parts, self.kind)

    def landing_rejection_reason(self, url: str) -> str:
        """Return why the scope cannot follow its root there; empty if it can.

        Another domain may be anybody's. A folder above the root's own is where removed sections redirect to: from there
        the source would cover far more than it was asked to.
        """
        try:
            landing = RootUrl.parse(url)
        except ValueError:
            return NO_ADDRESS
        if landing.domain != self._root.domain or not _is_same_port(landing.parts, self._root.parts):
            return OTHER_DOMAIN
        is_above = self._root.folder.startswith(landing.folder) and landing.folder != self._root.folder
        return ABOVE_ROOT if self.kind is ScopeKind.SUBPAGES and is_above else ""

    def resembles_root(self, url: str, links: Sequence[str]) -> bool:
        """Return whether the page looks like the former root, so that a temporary redirect there is more than a notice.

        It has the root's folder or its last name (`/v1.0/guide`, `/v2.0/guide`), or is a folder with pages in it
        (`/stable/`, `/1.2/`), by the links of its first page.
        """
        landing = RootUrl.parse(url)
        if landing.folder == self._root.folder or (landing.name and landing.name == self._root.name):
            return True
        if self.kind is ScopeKind.SUBPAGES and not landing.is_folder:
            return False
        inside = (parts for link in links if (parts := split_url(link)))
        return any(landing.covers(parts, self.kind) and not landing.is_same_page(parts) for parts in inside)

    def with_landing(self, url: str) -> Scope:
        """Return the same scope after its root has redirected to this address."""
        include, exclude = self._patterns
        landings = [*(known for known in self.landings if known != url), url][-MAX_LANDINGS:]
        return Scope(self.root, self.kind, include, exclude, self.max_depth, now=self._now, landings=landings)

    def is_in_former_landing(self, url: str) -> bool:
        """Return whether it was covered before the root led elsewhere.

        If so, it is no evidence that nothing links to it any more.
        """
        parts = split_url(url)
        if parts is None or not self.landings or self.is_in_landing(url):
            return False
        return any(root.covers(parts, self.kind) for root in self._roots)


def _version(
    roots: Sequence[str], kind: str, include: Sequence[str], exclude: Sequence[str], max_depth: int | None
) -> str:
    """Changes with anything that could admit other URLs, our own rules included."""
    rules = [spider_traps.RULES_VERSION, *roots, kind, list(include), list(exclude), max_depth]
    return hashlib.sha256(json.dumps(rules).encode()).hexdigest()[:12]


def _slashes(url: str) -> int:
    return url.rstrip("/").count("/")


def _is_same_site(one: UrlParts, other: UrlParts) -> bool:
    """The same host and port."""
    return one.host == other.host and _is_same_port(one, other)


def _is_same_port(one: UrlParts, other: UrlParts) -> bool:
    """The default ports of http and https count as one."""
    return one.port == other.port or all(parts.port == _DEFAULT_PORTS[parts.scheme] for parts in (one, other))


def _normal_path(parts: UrlParts) -> str:
    """`/%7Eme/` and `/~me/` are one folder."""
    if "%" not in parts.path:
        return parts.path
    normalised = split_url(normalise_url(f"http://host{parts.path}"))
    assert normalised is not None
    return normalised.path + ("/" if parts.path.endswith("/") and normalised.path != "/" else "")


def _folder(path: str) -> str:
    """What subpages begin with: `/docs/` for `/docs/`, `/docs` and `/docs/intro.html`."""
    before, _, last = path.rpartition("/")
    is_page = last.rpartition(".")[2].lower() in _PAGE_ENDINGS and "." in last
    return f"{before}/" if is_page or not last else f"{path}/"


def _is_no_document(path: str) -> bool:
    """By the ending of its name. `File:Weir.jpg` is a wiki's page about a picture."""
    folders, _, name = path.rpartition("/")
    stem, dot, ending = name.lower().rpartition(".")
    if not dot or ":" in name or "%3a" in stem:
        return False
    if ending in _SCRIPTS:
        return stem.endswith(".min") or not _SCRIPT_FOLDERS.isdisjoint(folders.lower().split("/"))
    return ending in _NO_DOCUMENT
