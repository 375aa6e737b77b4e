"""A feed that others read from us, before it is written as RSS, Atom or JSON Feed; and how its values are made safe.

What the store holds was written by strangers. `cleaned` leaves nothing in a feed that XML forbids, that is no link of
the web, or that would be read as a tag.
"""

from __future__ import annotations

import re
from dataclasses import replace
from enum import StrEnum
from html import escape
from urllib.parse import quote, urlsplit

from core.pages.text_cleaning import collapse_whitespace, strip_unstorable, truncate
from core.registry.field_parsing import LATEST_TIME
from core.urls.secrets import without_credentials
from core.value_class import value_class

MOST_TITLE_CHARS = 500
MOST_SUMMARY_CHARS = 2_000
MOST_TEXT_CHARS = 200_000
"""Limit for one entry; a longer text ends with an ellipsis."""
_URL_CHARS = "/#%[]=:;$&()+,!?*@'~"
"""What stays as it is in a link; everything else is %-escaped."""
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8}){0,3}")
_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*")


class FeedFormat(StrEnum):
    """How a feed is written; the ending of its address."""

    RSS = "rss"
    ATOM = "atom"
    JSON = "json"


@value_class
class PublishedEntry:
    """One article, page or message. Times are seconds since 1970, 0 where they are not known; texts are plain."""

    id: str
    """For ever the same for the same thing, see `tag_uri`."""
    link: str
    title: str
    published_ts: float
    updated_ts: float
    author: str = ""
    summary: str = ""
    text: str = ""
    """Paragraphs, with blank lines between them."""
    image: str = ""
    language: str = ""
    categories: tuple[str, ...] = ()


@value_class
class PublishedFeed:
    """A feed with its entries, newest first."""

    id: str
    title: str
    description: str
    home_url: str
    self_url: str
    """Its own address, without a token."""
    entries: tuple[PublishedEntry, ...] = ()
    hub_url: str = ""
    """URL of a WebSub hub; empty: there is none."""

    @property
    def updated_ts(self) -> float:
        """When its newest entry was published or changed; 0 if it has none."""
        return max((max(entry.published_ts, entry.updated_ts) for entry in self.entries), default=0.0)

    @property
    def language(self) -> str:
        """The language of all entries; empty if they have several."""
        languages = {entry.language for entry in self.entries}
        return languages.pop() if len(languages) == 1 else ""


def tag_uri(name: str) -> str:
    """Return the id of an entry or a feed: a name that no server has to answer under (RFC 4151)."""
    return f"tag:freshet,2026:{quote(strip_unstorable(name), safe='/:')}"


def cleaned(feed: PublishedFeed) -> PublishedFeed:
    """Return the feed with every value fit to be written in any format."""
    return replace(
        feed,
        title=_line(feed.title),
        description=_line(feed.description, MOST_SUMMARY_CHARS),
        entries=tuple(map(_cleaned_entry, feed.entries)),
    )


def _cleaned_entry(entry: PublishedEntry) -> PublishedEntry:
    link = web_link(entry.link)
    return replace(
        entry,
        link=link,
        title=_line(entry.title) or link,
        published_ts=_time(entry.published_ts),
        updated_ts=_time(entry.updated_ts),
        author=_line(entry.author),
        summary=_line(entry.summary, MOST_SUMMARY_CHARS),
        text=truncate(strip_unstorable(entry.text), MOST_TEXT_CHARS),
        image=web_link(entry.image),
        language=_language(entry.language),
        categories=tuple(filter(None, map(_line, entry.categories))),
    )


def web_link(*candidates: str) -> str:
    """Return the first that is an http or https URL, without secrets and %-escaped; empty if none is."""
    for candidate in candidates:
        url = strip_unstorable(candidate).strip()
        try:
            parts = urlsplit(url)
            # urlsplit, like browsers, does not see line feeds and tabs.
            is_link = parts.scheme in ("http", "https") and bool(parts.hostname) and url.isprintable()
        except ValueError:
            continue
        if is_link:
            return quote(without_credentials(url), safe=_URL_CHARS)
    return ""


def paragraphs_html(text: str) -> str:
    """Return plain text as HTML paragraphs in which nothing is a tag but `<p>` and `<br>`."""
    parts = (part.strip("\n").rstrip() for part in _BLANK_LINES.split(text))
    return "\n".join(f"<p>{escape(part).replace(chr(10), '<br>')}</p>" for part in parts if part)


def _line(text: str, most: int = MOST_TITLE_CHARS) -> str:
    return truncate(collapse_whitespace(strip_unstorable(text)), most)


def _time(seconds: float) -> float:
    """Return a time that can be written as a date of this era; 0 if it is none."""
    return seconds if 0 < seconds <= LATEST_TIME else 0.0


def _language(name: str) -> str:
    tag = name.replace("_", "-")
    return tag if _LANGUAGE.fullmatch(tag) else ""
