"""What a page says about itself, collected once from the whole document, before anything is cut away (trap T41).

Only collects: which of the values is believed is decided in `title`, `publish_date` and others. Takes the
elements from either parser.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from core.models import RejectedUrl
from core.pages import json_ld
from core.pages.text_cleaning import collapse_whitespace, strip_unstorable
from core.urls.normalise import join_url, public_url, split_url

METADATA_TAGS = ("html", "base", "meta", "link", "title", "h1", "time", "script")
_MAX_ELEMENTS = 2_000
_MAX_VALUE_CHARS = 5_000
_META_NAMES = ("property", "name", "itemprop", "http-equiv")


class MetadataElement(NamedTuple):
    """An element of the page, free of the parser it came from."""

    tag: str
    attributes: Mapping[str, str | None]
    text: str = ""


@dataclass(frozen=True, slots=True)
class PageMetadata:
    """The page's own statements, raw but storable."""

    url: str
    """Where the page was found."""
    base: str
    """What its relative links start from."""
    metas: Mapping[str, list[str]] = field(default_factory=dict)
    links: Mapping[str, list[str]] = field(default_factory=dict)
    """Targets by relation."""
    title: str = ""
    h1: tuple[str, ...] = ()
    times: tuple[Mapping[str, str | None], ...] = ()
    bylines: tuple[str, ...] = ()
    """Marked in the text as the author's name; searched for only if the page states no author."""
    article: json_ld.Thing = field(default_factory=dict)
    lang: str = ""
    is_amp: bool = False

    def meta(self, *names: str) -> str:
        """The first of these meta tags that says something."""
        return next((value for name in names for value in self.metas.get(name, ()) if value), "")

    def absolute(self, address: str) -> str:
        """The address as an http(s) URL that may be stored, or an empty string."""
        address = address.strip()
        cleaned = public_url(join_url(self.base, address)) if address else ""
        return "" if isinstance(cleaned, RejectedUrl) else cleaned


def collect_metadata(elements: Iterable[MetadataElement], url: str) -> PageMetadata:
    """The statements of a page's elements, in document order."""
    kept = [element for element, _ in zip(elements, range(_MAX_ELEMENTS), strict=False)]
    html = next((element.attributes for element in kept if element.tag == "html"), {})
    return PageMetadata(
        url=url,
        base=_base(kept, url),
        metas=_metas(kept),
        links=_links(kept),
        title=next((text for text in _texts(kept, "title") if text), ""),
        h1=tuple(text for text in _texts(kept, "h1") if text),
        times=tuple(element.attributes for element in kept if element.tag == "time"),
        article=json_ld.article(strip_unstorable(element.text) for element in kept if element.tag == "script"),
        lang=(html.get("lang") or html.get("xml:lang") or "").strip(),
        is_amp="amp" in html or "⚡" in html,
    )


def _base(elements: list[MetadataElement], url: str) -> str:
    stated = next((e.attributes.get("href") for e in elements if e.tag == "base" and e.attributes.get("href")), None)
    joined = join_url(url, stated) if stated else url
    return joined if split_url(joined) else url


def _texts(elements: list[MetadataElement], tag: str) -> list[str]:
    return [
        collapse_whitespace(strip_unstorable(element.text[:_MAX_VALUE_CHARS]))
        for element in elements
        if element.tag == tag
    ]


def _metas(elements: list[MetadataElement]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for element in elements:
        content = element.attributes.get("content") if element.tag == "meta" else None
        if not content:
            continue
        value = collapse_whitespace(strip_unstorable(content[:_MAX_VALUE_CHARS]))
        # `property="og:title twitter:title"`: one tag may answer to several names.
        for attribute in _META_NAMES:
            for name in (element.attributes.get(attribute) or "").lower().split():
                found.setdefault(name, []).append(value)
    return found


def _links(elements: list[MetadataElement]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for element in elements:
        target = element.attributes.get("href") if element.tag == "link" else None
        if target:
            for relation in (element.attributes.get("rel") or "").lower().split():
                found.setdefault(relation, []).append(strip_unstorable(target))
    return found
