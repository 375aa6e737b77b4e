"""The tasks of parse children: a name, a request type, a function, a result type.

The functions run in the child only and import what they need when first called: the parent never loads a parser, and
the server that forks the children only those of tasks that are asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from core import ids
from core.errors import FreshetError, NotAFeed
from core.models import DiscoveredFeed, Document, Failed, FeedLinks
from core.runtime.parse_samples import FEED, PAGE, URL
from core.sources.sitemap_pages import SitemapResult, SitemapTask, read_sitemap
from core.value_class import value_class

LOADED_WHEN_NEEDED = ("core.pages.trafilatura_fallback", "core.pages.language_model")
"""Modules that few pages need, and whose import takes 0.2 CPU seconds. The fork server does it as soon as a child wants
one, and forks another: so it is done once, not in every child."""


@value_class
class ParseTask:
    """One task. `refusals` are the exceptions that it raises on purpose, with a text for people."""

    request: type
    run: Callable[[Any], object]
    result: type
    refusals: tuple[type[FreshetError], ...] = (NotAFeed,)
    patience: int = 1
    """So many times the usual CPU limit: an honest PDF of a thousand pages takes longer than any page of HTML."""
    sample: object = None
    """A request of ours that the fork server runs before it forks a child for the task: so it loads what that takes."""


class FeedRequest(msgspec.Struct, frozen=True, array_like=True):
    """A feed's body, and the rules its links are cleaned by."""

    body: bytes
    url: str
    content_type: str = ""
    tracking_params: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()


def read_feed(request: FeedRequest) -> FeedLinks:
    """Return the clean links of a feed's body; raise `NotAFeed` if it is none."""
    from core.feeds.feed_links import extract_links
    from core.feeds.parse import parse_feed

    parsed = parse_feed(request.body, request.url, request.content_type)
    return extract_links(parsed, request.tracking_params, request.allowed_hosts)


class DiscoveryRequest(msgspec.Struct, frozen=True, array_like=True):
    """An HTML page and where it came from."""

    body: bytes
    url: str


def discover_feeds(request: DiscoveryRequest) -> tuple[DiscoveredFeed, ...]:
    """Return the feeds that a page links to, best first."""
    from core.feeds.autodiscovery import linked_feeds

    return tuple(linked_feeds(request.body, request.url))


class PageRequest(msgspec.Struct, frozen=True, array_like=True):
    """A page to read as an article, and what its feed already said."""

    body: bytes
    """Empty where the page could not be had: then only the feed's text counts."""
    url: str
    """Where the redirects ended."""
    content_type: str = ""
    main_text: bool = True
    feed_html: str = ""
    feed_title: str = ""
    links: bool = False
    """Collect where the page leads."""
    tracking_params: tuple[str, ...] = ()
    packing: str = ""
    """The content coding in which the body still is: unpacked here, it passes the socket at a quarter of its length."""
    max_bytes: int = 0
    """Of a packed body, when it is plain."""
    has_known_date: bool = False
    """A feed has said when it was published; only what the page states is better."""


class DocumentRequest(msgspec.Struct, frozen=True, array_like=True):
    """An item of a site, a folder or a repository: a page, a PDF, a Word file, Markdown, text, a table."""

    body: bytes
    name: str
    """File name or path; its ending counts where the content type says little."""
    content_type: str = ""
    url: str = ""
    """Where it was found; relative links of a page start from it. Empty for a file."""
    main_text: bool = True
    links: bool = False
    tracking_params: tuple[str, ...] = ()


@value_class
class PageResult:
    """A document, or why there is none; and where the page leads, in both cases."""

    document: Document | None = None
    failed: Failed | None = None
    links: tuple[str, ...] = ()
    is_noindex: bool = False
    """The page asks robots not to keep it."""
    body_hash: str = ""
    body_bytes: int = 0
    """Of the plain body, if it came packed."""
    unpacking: Failed | None = None
    """Why a packed body could not be unpacked: a failure of the fetch, not of the page."""


def read_page(request: PageRequest) -> PageResult:
    """Return the better of the page and its feed's own text."""
    from core.pages.extract import best_document, document_from_feed_text, extract_page

    body = request.body
    if request.packing:
        from core.pages.documents.unpack import unpack

        unpacked = unpack(body, request.packing, request.max_bytes)
        if isinstance(unpacked, Failed):
            return PageResult(unpacking=unpacked)
        body = unpacked
    page = extract_page(
        body,
        request.url,
        request.content_type,
        main_text=request.main_text,
        links=request.links,
        has_known_date=request.has_known_date,
    )
    feed = document_from_feed_text(request.feed_html, request.url, request.feed_title) if request.feed_html else None
    result = _result(best_document(page.result, feed), page.links, page.is_noindex, request.tracking_params)
    return replace(result, body_hash=ids.body_hash(body), body_bytes=len(body)) if request.packing else result


def read_document(request: DocumentRequest) -> PageResult:
    """Read an item of any type that Freshet supports."""
    from core.pages.documents.extract_file import extract_file

    read = extract_file(
        request.body,
        request.name,
        request.content_type,
        url=request.url,
        main_text=request.main_text,
        links=request.links,
    )
    return _result(read.result, read.links, read.is_noindex, request.tracking_params)


def _result(
    read: Document | Failed, links: tuple[str, ...], is_noindex: bool, tracking_params: tuple[str, ...]
) -> PageResult:
    from core.pages.document_link_cleaning import remove_trackers, remove_trackers_from_links

    links = remove_trackers_from_links(links, tracking_params)
    if isinstance(read, Failed):
        return PageResult(failed=read, links=links, is_noindex=is_noindex)
    return PageResult(document=remove_trackers(read, tracking_params), links=links, is_noindex=is_noindex)


TASKS: Mapping[str, ParseTask] = {
    "feed": ParseTask(FeedRequest, read_feed, FeedLinks, sample=FeedRequest(FEED, URL)),
    "discover": ParseTask(DiscoveryRequest, discover_feeds, tuple[DiscoveredFeed, ...]),
    "page": ParseTask(PageRequest, read_page, PageResult, sample=PageRequest(PAGE, URL, "text/html")),
    "document": ParseTask(
        DocumentRequest, read_document, PageResult, sample=DocumentRequest(PAGE, "bridge", "text/html", URL)
    ),
    "long_document": ParseTask(DocumentRequest, read_document, PageResult, patience=8),
    "sitemap": ParseTask(SitemapTask, read_sitemap, SitemapResult),
}


def load(registry: str) -> Mapping[str, ParseTask]:
    """Return the registry named `module:attribute`; parent and child load the same one."""
    module, _, attribute = registry.partition(":")
    tasks: Mapping[str, ParseTask] = getattr(importlib.import_module(module), attribute)
    return tasks
