"""The article's title: what the page says, without the site's name. Also its author and its description."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import unescape

from core.pages import json_ld
from core.pages.metadata import PageMetadata
from core.pages.text_cleaning import collapse_whitespace, truncate
from core.urls.normalise import host_of, registrable_domain

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
_LETTERS = re.compile(r"\W+|_")
_NOT_A_NAME = re.compile(r"https?:|www\.|@|\.(?:com|org|net|de)\b", re.IGNORECASE)
_AFTER_NAME = re.compile(
    r"\s+[-–—|•·/]\s|,?\s+(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?\s+\d|,?\s*[\d(@]|\s+on\s",
    re.IGNORECASE,
)
_BY = re.compile(r"^(?:by|von|par|por|di)\s+", re.IGNORECASE)


def page_title(head: PageMetadata) -> str:
    """The title, one line; empty if the page has none."""
    stated = next((value for value in map(head.meta, _TITLE_METAS) if value), "")
    found = _plain(stated) or _from_json(head) or _from_title_tag(head) or (head.h1[0] if head.h1 else "")
    return truncate(_without_site(found, head), MAX_TITLE_CHARS)


def page_description(head: PageMetadata) -> str:
    """What the page says it is about, one line."""
    stated = next((value for value in map(head.meta, _DESCRIPTION_METAS) if value), "")
    return _plain(stated or json_ld.text(head.article, "description"))


def page_author(head: PageMetadata) -> str:
    """Who wrote it: names joined by commas. Addresses and the site's own name are no author."""
    site = _bare(head.meta(*_SITE_METAS))
    for stated in _stated_authors(head):
        people = (_BY.sub("", _plain(name)) for name in stated)
        kept = [
            name for name in people if 1 < len(name) <= 100 and not _NOT_A_NAME.search(name) and _bare(name) != site
        ]
        if kept:
            return truncate(", ".join(dict.fromkeys(kept)), MAX_TITLE_CHARS)
    return ""


def _stated_authors(head: PageMetadata) -> Iterator[Sequence[str]]:
    yield json_ld.names(head.article, "author")
    yield from (head.metas.get(name, ()) for name in _AUTHOR_METAS)
    # `Ada Miller - Jan 6, 2025 8:02 pm`: the name stands before the first mark or number.
    yield from ((_AFTER_NAME.split(byline, maxsplit=1)[0],) for byline in head.bylines)


def _from_json(head: PageMetadata) -> str:
    """JSON-LD's headline, where the page shows the same; some sites put a description there."""
    headline = _plain(json_ld.text(head.article, "headline"))
    seen = _bare(" ".join((head.title, *head.h1)))
    return headline if headline and (_bare(headline)[:40] in seen or not seen) else ""


def _plain(text: str) -> str:
    """Templates escape twice and leave tags in attributes."""
    return (
        collapse_whitespace(re.sub(r"</?[a-z][^<>]{0,200}>", "", unescape(text), flags=re.IGNORECASE)) if text else ""
    )


def _from_title_tag(head: PageMetadata) -> str:
    """The part of `<title>` that the headline repeats, else all but a short last part, which names the site."""
    parts = _parts(head.title)
    heads = {_bare(text) for text in head.h1}
    repeated = [text for text in (head.title, *parts) if _bare(text) in heads]
    if repeated and 2 * len(max(repeated, key=len)) >= len(head.title):
        return max(repeated, key=len)
    marks = list(_BEFORE_SITE.finditer(head.title[:MAX_TITLE_CHARS]))
    rest, tail = (head.title[: marks[-1].start()], head.title[marks[-1].end() :]) if marks else ("", "")
    return rest if len(rest.split()) > 2 * len(tail.split()) and len(tail.split()) <= 3 else head.title


def _without_site(text: str, head: PageMetadata) -> str:
    """`Story | Site` and `Site: Story` without the site, which is known by its own word or by its domain."""
    sites = _site_names(head)
    marks = list(_SEPARATOR.finditer(text[:MAX_TITLE_CHARS]))
    if marks and _bare(text[marks[-1].end() :]) in sites:
        return text[: marks[-1].start()].strip()
    if marks and _bare(text[: marks[0].start()]) in sites:
        return text[marks[0].end() :].strip()
    return text


def _parts(text: str) -> list[str]:
    return [part for part in _SEPARATOR.split(text[:MAX_TITLE_CHARS]) if part]


def _site_names(head: PageMetadata) -> set[str]:
    """How the site may call itself, in bare letters: its stated names, its host and its domain's first word."""
    stated = [*(value for name in _SITE_METAS for value in head.metas.get(name, ()))]
    stated += json_ld.names(head.article, "publisher")
    host = host_of(head.url)
    domain = registrable_domain(host)
    stated += [host, host.removeprefix("www."), domain, domain.partition(".")[0]]
    bare = {_bare(name) for name in stated}
    return {name for name in (*bare, *(f"the{name}" for name in bare if name)) if name}


def _bare(text: str) -> str:
    return _LETTERS.sub("", text).casefold()
