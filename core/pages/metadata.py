"""Read the metadata that a page states: once from the whole document, before anything is removed from it.

`PageMetadata` holds the statements of either parser's elements; below it is decided which title, author and description
are believed. Dates, language and images are decided in their own files.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import field
from html import unescape
from itertools import islice
from typing import NamedTuple

from core.models import RejectedUrl
from core.pages import json_ld
from core.pages.text_cleaning import bare_letters, collapse_whitespace, strip_unstorable, truncate
from core.urls.normalise import host_of, join_url, public_url, registrable_domain, split_url
from core.value_class import value_class

METADATA_TAGS = ("html", "base", "meta", "link", "title", "h1", "time", "script")
_MAX_ELEMENTS = 2_000
_MAX_VALUE_CHARS = 5_000
_META_NAMES = ("property", "name", "itemprop", "http-equiv")
_SCHEMES = ("https://", "http://")
_ROBOTS_SEPARATOR = re.compile(r"[\s,;]+")

MAX_TITLE_CHARS = 500
# Dublin Core first: who takes the trouble means it. Open Graph titles are sometimes bait, but without the site's name.
_TITLE_METAS = ("dc:title", "dc.title", "dcterms.title", "og:title", "twitter:title", "parsely-title", "sailthru.title")
_DESCRIPTION_METAS = ("og:description", "description", "twitter:description", "dc.description", "dcterms.abstract")
_AUTHOR_METAS = (
    *("dc:creator", "dc.creator", "dcterms.creator", "author", "article:author", "parsely-author", "sailthru.author"),
    *("byl", "og:article:author", "citation_author"),
)
_SITE_METAS = ("og:site_name", "application-name", "apple-mobile-web-app-title", "al:android:app_name")
_BEFORE_SITE = re.compile(r"\s+[|\-–—»·•]+\s+|\s*\|\s*")
_SEPARATOR = re.compile(r"\s+[|\-–—:/»«·•›~]+\s+|\s*[|»]\s*|:\s+")
_NOT_A_NAME = re.compile(r"https?:|www\.|@|\.(?:com|org|net|de)\b", re.IGNORECASE)
_AFTER_NAME = re.compile(
    r"\s+[-–—|•·/]\s|,?\s+(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?\s+\d|,?\s*[\d(@]|\s+on\s",
    re.IGNORECASE,
)
_TAG = re.compile(r"<(/?)([a-z][a-z0-9]*)([^<>]{0,200})>", re.IGNORECASE)
_FORMATTING = {
    *("a", "abbr", "b", "big", "br", "cite", "code", "em", "font", "i", "img", "mark", "p", "q", "s", "small"),
    *("span", "strong", "sub", "sup", "u", "wbr"),
}
_BY = re.compile(r"^(?:by|von|par|por|di)\s+", re.IGNORECASE)


class MetadataElement(NamedTuple):
    """An element that may state something, independent of the parser."""

    tag: str
    attributes: Mapping[str, str | None]
    text: str = ""


@value_class
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
        """Return the first of these meta tags that has content."""
        return next((value for name in names for value in self.metas.get(name, ()) if value), "")

    def absolute(self, address: str) -> str:
        """Return the address as an http(s) URL that may be stored, or an empty string."""
        address = address.strip()
        # Most are absolute, and then the base has no say: joining takes half of the time of cleaning.
        whole = address if address.startswith(_SCHEMES) else join_url(self.base, address)
        cleaned = public_url(whole) if address else ""
        return "" if isinstance(cleaned, RejectedUrl) else cleaned

    @property
    def canonical_url(self) -> str:
        """The page's own word on its address; `og:url` is the weaker one, as sites put their front page there."""
        stated = (*self.links.get("canonical", ()), *self.metas.get("og:url", ()))
        return next((url for url in map(self.absolute, stated) if url), "")

    @property
    def is_paid(self) -> bool:
        """Whether the page says that its article must be paid for, as publishers tell search engines."""
        stated = self.article.get("isAccessibleForFree")
        # A word in a string, as templates write it, or a tag with `itemprop`.
        word = self.meta("isaccessibleforfree") if stated is None else str(stated)
        return word.strip().lower() in ("false", "no")

    @property
    def robots(self) -> set[str]:
        """The directives for all robots, `none` written out. Several tags add up."""
        words = {word for value in self.metas.get("robots", ()) for word in _ROBOTS_SEPARATOR.split(value.lower())}
        return words | {"noindex", "nofollow"} if "none" in words else words


def collect_metadata(elements: Iterable[MetadataElement], url: str) -> PageMetadata:
    """Collect the statements of a page's elements, which come in document order."""
    by_tag: defaultdict[str, list[MetadataElement]] = defaultdict(list)
    for element in islice(elements, _MAX_ELEMENTS):
        by_tag[element.tag].append(element)
    metas: defaultdict[str, list[str]] = defaultdict(list)
    for _, attributes, _ in by_tag["meta"]:
        if content := attributes.get("content"):
            line = _one_line(content)
            # `property="og:title twitter:title"`: one tag may answer to several names.
            for name in " ".join([attributes.get(key) or "" for key in _META_NAMES]).lower().split():
                metas[name].append(line)
    links: defaultdict[str, list[str]] = defaultdict(list)
    for _, attributes, _ in by_tag["link"]:
        for relation in (attributes.get("rel") or "").lower().split():
            if target := attributes.get("href"):
                links[relation].append(strip_unstorable(target))
    html = by_tag["html"][0].attributes if by_tag["html"] else {}
    base = next((href for element in by_tag["base"] if (href := element.attributes.get("href"))), "")
    base = join_url(url, base) if base else url
    return PageMetadata(
        url=url,
        base=base if split_url(base) else url,
        metas=dict(metas),
        links=dict(links),
        title=next(filter(None, (_one_line(element.text) for element in by_tag["title"])), ""),
        h1=tuple(filter(None, (_one_line(element.text) for element in by_tag["h1"]))),
        times=tuple(element.attributes for element in by_tag["time"]),
        article=json_ld.article(strip_unstorable(element.text) for element in by_tag["script"]),
        lang=(html.get("lang") or html.get("xml:lang") or "").strip(),
        is_amp="amp" in html or "⚡" in html,
    )


def _one_line(text: str) -> str:
    return collapse_whitespace(strip_unstorable(text[:_MAX_VALUE_CHARS]))


# ── title, author, description ──────────────────────────────────────────────────────────────────


def page_title(metadata: PageMetadata) -> str:
    """Return the title without the site's name, as one line; empty if the page has none."""
    stated = _plain_title(metadata.meta(*_TITLE_METAS), metadata)
    heading = metadata.h1[0] if metadata.h1 else ""
    title = stated or _shown_headline(metadata) or _from_title_tag(metadata) or heading
    return truncate(_without_site(title, metadata), MAX_TITLE_CHARS)


def page_description(metadata: PageMetadata) -> str:
    """Return the page's own description as one line."""
    return _plain(metadata.meta(*_DESCRIPTION_METAS) or json_ld.text(metadata.article, "description"))


def page_author(metadata: PageMetadata) -> str:
    """Return the authors' names, joined by commas. Addresses and the site's own name are no author."""
    site = bare_letters(metadata.meta(*_SITE_METAS))
    # `Ada Miller - Jan 6, 2025 8:02 pm`: the name stands before the first mark or number.
    bylines = ([_AFTER_NAME.split(byline, maxsplit=1)[0]] for byline in metadata.bylines)
    metas = (metadata.metas.get(name, []) for name in _AUTHOR_METAS)
    described = [_plain(name) for name in json_ld.names(metadata.article, "author")]
    for stated in (described, *(map(_plain_name, names) for names in (*metas, *bylines))):
        people = [_BY.sub("", name) for name in stated]
        kept = [name for name in people if 1 < len(name) <= 100 and not _NOT_A_NAME.search(name)]
        authors = [name for name in kept if bare_letters(name) != site]
        if authors:
            return truncate(", ".join(dict.fromkeys(authors)), MAX_TITLE_CHARS)
    return ""


def _shown_headline(metadata: PageMetadata) -> str:
    """JSON-LD's headline, where the page shows the same; some sites put a description there."""
    headline = _plain_title(json_ld.text(metadata.article, "headline"), metadata)
    shown = bare_letters(" ".join((metadata.title, *metadata.h1)))
    return "" if shown and bare_letters(headline)[:40] not in shown else headline


def _plain(text: str) -> str:
    """Templates escape twice and leave markup in attributes; `<details>` in words about HTML is a word."""
    if "<" not in text and "&" not in text:  # as nearly always
        return collapse_whitespace(text)
    text = unescape(text)
    closed = {tag[2].lower() for tag in _TAG.finditer(text) if tag[1]}

    def without_markup(tag: re.Match[str]) -> str:
        rest = tag[3].strip(" /")
        is_markup = ("=" in rest or not rest) and (tag[2].lower() in _FORMATTING | closed or "=" in rest)
        return "" if is_markup else tag[0]

    return collapse_whitespace(_TAG.sub(without_markup, text))


def _plain_title(text: str, metadata: PageMetadata) -> str:
    """The same for a title, whose tags are words if the page shows them to its readers as such."""
    plain, whole = _plain(text), collapse_whitespace(unescape(text))
    if plain == whole:
        return plain
    headings = {bare_letters(heading) for heading in metadata.h1}
    shown = headings | {bare_letters(metadata.title)}
    is_shown = any(bare_letters(whole) in words for words in shown) and bare_letters(plain) not in headings
    return whole if is_shown else plain


def _plain_name(text: str) -> str:
    """The same for a name that the parser has decoded: only a link around it is markup for certain."""
    return _plain(text) if "=" in text else collapse_whitespace(unescape(text))


def _from_title_tag(metadata: PageMetadata) -> str:
    """The part of `<title>` that a heading repeats, else all but a short last part, which names the site."""
    parts = filter(None, _SEPARATOR.split(metadata.title[:MAX_TITLE_CHARS]))
    headings = {bare_letters(text) for text in metadata.h1}
    repeated = max((text for text in (metadata.title, *parts) if bare_letters(text) in headings), key=len, default="")
    if repeated and 2 * len(repeated) >= len(metadata.title):
        return repeated
    marks = list(_BEFORE_SITE.finditer(metadata.title[:MAX_TITLE_CHARS]))
    rest, tail = (metadata.title[: marks[-1].start()], metadata.title[marks[-1].end() :]) if marks else ("", "")
    return rest if len(rest.split()) > 2 * len(tail.split()) and len(tail.split()) <= 3 else metadata.title


def _without_site(text: str, metadata: PageMetadata) -> str:
    """`Story | Site` and `Site: Story` without the site, known by its stated names, its host or its domain."""
    marks = list(_SEPARATOR.finditer(text[:MAX_TITLE_CHARS]))
    if not marks:  # as two titles in three: the site's names need not be known
        return text
    sites = _site_names(metadata)
    if bare_letters(text[marks[-1].end() :]) in sites:
        return text[: marks[-1].start()].strip()
    if bare_letters(text[: marks[0].start()]) in sites:
        return text[marks[0].end() :].strip()
    return text


def _site_names(metadata: PageMetadata) -> set[str]:
    stated = [value for name in _SITE_METAS for value in metadata.metas.get(name, ())]
    stated += json_ld.names(metadata.article, "publisher")
    host = host_of(metadata.url)
    domain = registrable_domain(host)
    stated += [host, host.removeprefix("www."), domain, domain.partition(".")[0]]
    names = {bare_letters(name) for name in stated} - {""}
    return names | {f"the{name}" for name in names}
