"""Which URLs belong to a web source. Each refusal has a reason, for people.

Pure. http and https are one site here; `www.` and the bare host are two, as in docs/urls.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from core.models import RejectedUrl
from core.urls import spider_traps
from core.urls.normalise import UrlParts, clean_url, normalise_url, registrable_domain, split_url
from core.urls.patterns import UrlPatterns


class ScopeKind(StrEnum):
    """How far a source reaches from its root."""

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
OUT_OF_SCOPE = frozenset({NO_ADDRESS, *OUTSIDE.values(), EXCLUDED, NOT_INCLUDED, TOO_DEEP})
"""Reasons that follow from what the source is asked to cover; all others say something about the URL itself."""

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
MOST_LANDINGS = 20


OTHER_DOMAIN, ABOVE = "another domain", "above what it covers"


@dataclass(frozen=True, slots=True)
class Place:
    """An address, and what a source reaches from it."""

    url: str
    parts: UrlParts
    domain: str
    folder: str

    @classmethod
    def of(cls, url: str) -> Place:
        """Raises ValueError, with a sentence, for what is no web address."""
        cleaned = clean_url(url)
        found = None if isinstance(cleaned, RejectedUrl) else split_url(cleaned)
        if isinstance(cleaned, RejectedUrl) or found is None:
            raise ValueError("The root of a web source must be an http or https URL.")
        return cls(cleaned, found, registrable_domain(found.host), _folder(_normal_path(found)))

    @property
    def name(self) -> str:
        """The last name in its path; empty for a front page."""
        return self.parts.path.rstrip("/").rpartition("/")[2]

    @property
    def is_folder(self) -> bool:
        """Is it a folder, or the first page of one?"""
        return self.name.partition(".")[0] in ("index", "default") or self.folder.startswith(_normal_path(self.parts))

    def is_at(self, found: UrlParts) -> bool:
        """Is it this very address?"""
        same_path = found.path.rstrip("/") == self.parts.path.rstrip("/")
        return same_path and found.query == self.parts.query and _is_same_site(found, self.parts)

    def reaches(self, found: UrlParts, kind: ScopeKind) -> bool:
        """Does a source of this kind cover an address from here?"""
        if kind is ScopeKind.DOMAIN:
            return registrable_domain(found.host) == self.domain
        if not _is_same_site(found, self.parts):
            return False
        if kind is ScopeKind.HOST:
            return True
        path = _normal_path(found)
        return path.startswith(self.folder) or f"{path}/" == self.folder


class Scope:
    """What one web source covers. `root` is always part of it.

    A root may lead elsewhere (`/stable/` to `/1.2/`): where it has landed is covered as well, and what it led to before
    is no longer followed but not given up. Raises ValueError, with a sentence, for a root or a kind that cannot be.
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

        now: when the run began; 0: calendars are not judged (`spider_traps.trap`).
        landings: where redirects have led the root so far, the present place last.
        """
        self._root = Place.of(root)
        self.root = self._root.url
        self.kind = ScopeKind(kind)
        self.max_depth = max_depth
        self.landings = tuple(landings)
        self._places = (self._root, *map(Place.of, landings))
        self._present = self._places[-1]
        self._patterns = tuple(include), tuple(exclude)
        self.version = _version([self.root, *landings[-1:]], self.kind, include, exclude, max_depth)
        # Apart, so that the reason can say which of them spoke.
        self._includes = UrlPatterns(tuple(include), ())
        self._excludes = UrlPatterns((), tuple(exclude))
        self._now = now

    def admits(self, url: str, depth: int) -> str:
        """Empty if the URL belongs to the source at this depth, else the reason why it does not."""
        found = split_url(url)
        if found is None:
            return NO_ADDRESS
        if self._root.is_at(found):
            return ""
        if not any(place.reaches(found, self.kind) for place in (self._root, self._present)):
            return OUTSIDE[self.kind]
        return self._of_configuration(url, depth) or self._of_itself(url, found.path)

    def _of_configuration(self, url: str, depth: int) -> str:
        if not self._excludes.takes(url):
            return EXCLUDED
        if not self._includes.takes(url):
            return NOT_INCLUDED
        return TOO_DEEP if self.max_depth is not None and depth > self.max_depth else ""

    def _of_itself(self, url: str, path: str) -> str:
        return NO_DOCUMENT if _is_no_document(path) else spider_traps.trap(url, self._now)

    # ── a root that leads elsewhere ──

    @property
    def present(self) -> str:
        """Where the root leads now."""
        return self._present.url

    def is_root(self, url: str) -> bool:
        """Is it the address of the root?"""
        found = split_url(url)
        return found is not None and self._root.is_at(found)

    def holds(self, url: str) -> bool:
        """Does it lie where the root leads now?"""
        found = split_url(url)
        return found is not None and self._present.reaches(found, self.kind)

    def refuses_landing(self, url: str) -> str:
        """Why the scope cannot follow its root there; empty if it can.

        Another domain may be anybody's, and a folder above the root's own is where sections go that are no more:
        from there the source would cover far more than it was asked to.
        """
        try:
            place = Place.of(url)
        except ValueError:
            return NO_ADDRESS
        is_same_port = _is_same_port(place.parts, self._root.parts)
        if place.domain != self._root.domain or not is_same_port:
            return OTHER_DOMAIN
        is_above = self._root.folder.startswith(place.folder) and place.folder != self._root.folder
        return ABOVE if self.kind is ScopeKind.SUBPAGES and is_above else ""

    def is_like_root(self, url: str, links: Sequence[str]) -> bool:
        """Does a place look like what the root was, so that a temporary redirect there is no notice for the moment?

        It has the root's folder or its last name (`/v1.0/guide`, `/v2.0/guide`), or is a folder with pages in it
        (`/stable/`, `/1.2/`), by the links of its first page.
        """
        place = Place.of(url)
        if place.folder == self._root.folder or (place.name and place.name == self._root.name):
            return True
        if self.kind is ScopeKind.SUBPAGES and not place.is_folder:
            return False
        inside = (found for link in links if (found := split_url(link)))
        return any(place.reaches(found, self.kind) and not place.is_at(found) for found in inside)

    def landed(self, url: str) -> Scope:
        """The same scope after its root has led to this address."""
        include, exclude = self._patterns
        landings = [*(known for known in self.landings if known != url), url][-MOST_LANDINGS:]
        return Scope(self.root, self.kind, include, exclude, self.max_depth, now=self._now, landings=landings)

    def is_former(self, url: str) -> bool:
        """Was it covered before the root led elsewhere? Then that nothing leads there any more is no evidence."""
        found = split_url(url)
        if found is None or not self.landings or self.holds(url):
            return False
        return any(place.reaches(found, self.kind) for place in self._places)


def _version(
    roots: Sequence[str], kind: str, include: Sequence[str], exclude: Sequence[str], max_depth: int | None
) -> str:
    """Changes with anything that could admit other URLs, our own rules included."""
    said = [spider_traps.RULES_VERSION, *roots, kind, list(include), list(exclude), max_depth]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:12]


def _is_same_site(one: UrlParts, other: UrlParts) -> bool:
    """The same host and port."""
    return one.host == other.host and _is_same_port(one, other)


def _is_same_port(one: UrlParts, other: UrlParts) -> bool:
    """The default ports of http and https count as one."""
    return one.port == other.port or (_is_default(one) and _is_default(other))


def _is_default(found: UrlParts) -> bool:
    return found.port == _DEFAULT_PORTS[found.scheme]


def _normal_path(found: UrlParts) -> str:
    """`/%7Eme/` and `/~me/` are one folder."""
    if "%" not in found.path:
        return found.path
    normalised = split_url(normalise_url(f"http://host{found.path}"))
    assert normalised is not None
    return normalised.path + ("/" if found.path.endswith("/") and normalised.path != "/" else "")


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
