"""Include and exclude patterns for the paths and URLs of a source: globs as in .gitignore, no regular expressions.

Files: `*` and `?` stay inside one name, `**` crosses folders; `notes.md` and `*.md` match at any depth, a `/` inside or
in front anchors at the root, `docs/` is a whole folder; capitals do not matter (README.MD is a *.md). A folder that an
include names without wildcards is taken whole; everything in a folder that an exclude matches is left out.
URLs: `*` crosses `/`, as in robots.txt; capitals matter.

Every match takes time linear in the path for a given pattern. `pathspec` is not used because its regular expressions
backtrack: `*a*a*a*a*ab` against 200 letters takes 17 s there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import translate
from functools import lru_cache
from urllib.parse import quote

from core.urls.normalise import origin_of, split_url

DOCUMENTS = (
    *("*.md", "*.markdown", "*.rst", "*.txt", "*.adoc", "*.html", "*.htm"),
    *("*.pdf", "*.docx", "*.csv", "*.tsv"),
)
"""The default include: documents that have a text."""
NOISE = frozenset({"node_modules", "__pycache__"})
"""Folders that programs fill; like hidden ones they are skipped unless an include spells them out."""
MAX_CHARS = 500

_ANY = "**"
_ANYTHING = "\0"
"""A name that no file has, standing for whatever a folder may hold: only a bare `*` matches it."""
_WILD = re.compile(r"[*?\[]")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_PathGlob = tuple[str, ...]


def is_hidden(name: str) -> bool:
    """Return whether files of this name are not read unless asked for: `.git`, `.venv`, `node_modules`."""
    return name.startswith(".") or name in NOISE


class PathPatterns:
    """Which files of a tree are wanted; paths are relative to its root, with `/`. Raises ValueError, a sentence."""

    def __init__(self, include: Iterable[str] = (), exclude: Iterable[str] = ()) -> None:
        self.include = tuple(include)
        self.exclude = tuple(exclude)
        self._included = tuple(_path_glob(pattern, is_exclude=False) for pattern in self.include)
        self._excluded = tuple(_path_glob(pattern, is_exclude=True) for pattern in self.exclude)
        self._spelt = tuple(part for glob in self._included for part in glob if not _WILD.match(part))

    def matches(self, path: str) -> bool:
        """Return whether this file is wanted. Exclude wins; without any include every file is."""
        names = path.split("/")
        if any(_matches(glob, names) for glob in self._excluded):
            return False
        return not self._included or any(_matches(glob, names) for glob in self._included)

    def excluded_by(self, path: str) -> str:
        """Return the exclude pattern that leaves this file out; empty if none does."""
        names = path.split("/")
        pairs = zip(self.exclude, self._excluded, strict=True)
        return next((pattern for pattern, glob in pairs if _matches(glob, names)), "")

    def excludes_folder(self, folder: str) -> bool:
        """Return whether nothing in this folder is wanted, whatever is in it. Never true of the root, an empty path."""
        if not folder:
            return False
        names = folder.split("/")
        if any(_matches(glob, [*names, _ANYTHING]) for glob in self._excluded):
            return True
        return bool(self._included) and not any(_could_match_below(glob, names) for glob in self._included)

    def spells_out(self, name: str) -> bool:
        """Return whether an include spells this name (`.github/**`, `.*`), rather than match it by the way (`*`)."""
        return any(_name_matches(part, name) for part in self._spelt)


class UrlPatterns:
    """A list of URL patterns. Raises ValueError, a sentence.

    A pattern is matched against the path, and against path and query; with `://` in it against the whole URL.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._globs = [(pattern, glob) for pattern in patterns for glob in _url_globs(pattern)]

    def __bool__(self) -> bool:
        return bool(self._globs)

    def matches(self, url: str) -> bool:
        """Return whether one of the patterns matches this http(s) URL."""
        return bool(self.first_match(url))

    def first_match(self, url: str) -> str:
        """Return the first pattern that matches this http(s) URL; empty if none does."""
        parts = split_url(url) if self._globs else None
        if parts is None:
            return ""
        forms = [parts.path, f"{parts.path}?{parts.query}"] if parts.query else [parts.path]
        forms += [origin_of(url) + form for form in forms]
        return next((pattern for pattern, glob in self._globs for form in forms if glob.match(form)), "")


def _checked(pattern: str) -> str:
    """Return the pattern, if there is exactly one way to read it."""
    problems = (
        (not pattern.strip(), "is empty"),
        (len(pattern) > MAX_CHARS, f"is longer than {MAX_CHARS} characters"),
        (min(pattern, default=" ") < " ", "has a control character"),
        ("\\" in pattern, "has a backslash; write / between folders, and [[] for a bracket"),
        (pattern.startswith("!"), "starts with !; what is not wanted belongs into exclude"),
        (not _brackets_close(pattern[:MAX_CHARS]), "has a [ without its ]; write [[] for a bracket"),
    )
    if problem := next((text for applies, text in problems if applies), ""):
        raise ValueError(f"the pattern {pattern[:80]!r} {problem}")
    return pattern.replace("[^", "[!")


def _brackets_close(pattern: str) -> bool:
    """A set ends at the first `]` that is not its first member, and inside its name."""
    rest = pattern
    while "[" in rest:
        inside = rest.partition("[")[2]
        start = 1 if inside[:1] in ("!", "^") else 0
        end = inside.find("]", start + 1)
        if end < 0 or "/" in inside[:end]:
            return False
        rest = inside[end + 1 :]
    return True


def _path_glob(pattern: str, *, is_exclude: bool) -> _PathGlob:
    """Return the pattern as names from the root; `**` is any number of names, also none."""
    text = re.sub(r"^\./", "/", _checked(pattern).strip())
    is_folder = text.endswith("/")
    parts = [part for part in text.split("/") if part]
    if not parts or "." in parts or ".." in parts:
        raise ValueError(f"the pattern {pattern[:80]!r} names nothing inside the folder")
    names = [_ANY if part == _ANY else re.sub(r"\*+", "*", part) for part in parts]
    if len(parts) == 1 and not text.startswith("/"):
        names = [_ANY, "*" if names == [_ANY] else names[0]]
    elif names[-1] == _ANY:
        names.append("*")
    if is_folder:
        names += ["*", _ANY] if names[-1] != _ANY else []
    elif is_exclude or not _WILD.search(parts[-1]):
        names.append(_ANY)
    return tuple(name for at, name in enumerate(names) if name != _ANY or names[at - 1 : at] != [_ANY])


def _url_globs(pattern: str) -> list[re.Pattern[str]]:
    """Return every form in which a URL can match this pattern."""
    text = re.sub(r"\*+", "*", _checked(pattern).strip())
    if "://" in text:
        scheme, _, rest = text.partition("://")
        host, slash, path = rest.partition("/")
        text = f"{scheme.lower()}://{host.lower()}{slash}{path}" if slash else f"{text.lower()}/*"
    elif not text.startswith("/"):
        text = f"*{text}" if text.startswith("?") else f"*/{text}"
    text = _NOT_ASCII.sub(lambda match: quote(match[0], errors="replace"), text)
    forms = [text]
    if text.endswith("/"):
        forms = [text.rstrip("/") or "/", f"{text}*"]
    elif not _WILD.search(text.removeprefix("*/")):
        forms.append(f"{text}/*")
    return [re.compile(translate(form)) for form in forms]


@lru_cache(maxsize=4_096)
def _name_pattern(part: str) -> re.Pattern[str]:
    # `translate` writes every star but the last as an atomic group: no backtracking over several stars.
    return re.compile(translate(part), re.IGNORECASE)


def _name_matches(part: str, name: str) -> bool:
    return part == "*" or (name != _ANYTHING and _name_pattern(part).match(name) is not None)


def _matches(glob: _PathGlob, names: Sequence[str]) -> bool:
    """Match name by name, going back to the last `**` only: never exponential."""
    at = here = 0
    retry_glob, retry_here = -1, 0
    while here < len(names):
        if at < len(glob) and glob[at] == _ANY:
            retry_glob, retry_here = at, here
            at += 1
        elif at < len(glob) and _name_matches(glob[at], names[here]):
            at += 1
            here += 1
        elif retry_glob >= 0:
            retry_here += 1
            at, here = retry_glob + 1, retry_here
        else:
            return False
    return all(part == _ANY for part in glob[at:])


def _could_match_below(glob: _PathGlob, names: Sequence[str]) -> bool:
    """Could something inside this folder match? Yes from the first `**` on."""
    for part, name in zip(glob, names, strict=False):
        if part == _ANY:
            return True
        if not _name_matches(part, name):
            return False
    return len(glob) > len(names)
