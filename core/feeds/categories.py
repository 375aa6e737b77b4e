"""Category names as they appear in keys, and the list of feeds a person keeps in `feeds.toml`."""

from __future__ import annotations

import hashlib
import re
import tomllib
import unicodedata
from typing import Any

from core.errors import FeedFileError

_OTHERS = re.compile(r"[^a-z0-9_-]+")


def slug(name: str) -> str:
    """The name in `[a-z0-9_-]`, stable and never empty: `Économie / Énergie` is `economie_energie`."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    found = _OTHERS.sub("_", plain).strip("_-")
    return found or "category_" + hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]


def read_toml(text: str) -> dict[str, list[str]]:
    """Category to feed URLs, repeats dropped; FeedFileError names the key that is wrong."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise FeedFileError(f"The feed list is not valid TOML: {exc}") from exc
    table = document.get("categories")
    if not isinstance(table, dict):
        raise FeedFileError("The feed list has no [categories] table")
    categories: dict[str, list[str]] = {}
    for name, urls in table.items():
        listed = categories.setdefault(slug(name), [])
        listed += [url for url in dict.fromkeys(_checked(name, urls)) if url not in listed]
    return categories


def _checked(name: str, urls: Any) -> list[str]:
    """The URLs of one category, or a sentence saying what is wrong with them."""
    key = f"categories.{name}"
    if not isinstance(urls, list):
        raise FeedFileError(f"{key} must be a list of feed URLs")
    for url in urls:
        if not isinstance(url, str) or not url.strip().lower().startswith(("http://", "https://")):
            raise FeedFileError(f"{key} lists {url!r}, which is not an http or https URL")
    return [url.strip() for url in urls]
