"""Names of categories as they are used in keys, and the known names nearest to a misspelt one."""

from __future__ import annotations

import difflib
import hashlib
import re
import unicodedata
from collections.abc import Sequence

from core.errors import FeedFileError

NEAREST = 3
_OTHERS = re.compile(r"[^a-z0-9_-]+")


def category_slug(name: str) -> str:
    """Return the name in `[a-z0-9_-]`, stable and never empty: `Économie / Énergie` is `economie_energie`."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = _OTHERS.sub("_", plain).strip("_-")
    return slug or "category_" + hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]


def check_category(name: str) -> None:
    """Raise FeedFileError if the name of a category is not one that can stand in keys."""
    slug = category_slug(name)
    if slug != name:
        raise FeedFileError(f"{name!r} is not the name of a category; use a-z, 0-9, _ and -, for example {slug}.")


def nearest(name: str, known: Sequence[str]) -> list[str]:
    """Return the known names most like this one, best first."""
    return difflib.get_close_matches(name, known, NEAREST)


def nearest_urls(url: str, known: Sequence[str]) -> list[str]:
    """Return the known URLs most like this one; scheme, `www.` and a slash at the end make no difference."""
    by_form: dict[str, str] = {}
    for one in known:
        by_form.setdefault(_form(one), one)
    return [by_form[form] for form in nearest(_form(url), list(by_form))]


def _form(url: str) -> str:
    return url.lower().partition("://")[2].removeprefix("www.").rstrip("/") or url.lower()
