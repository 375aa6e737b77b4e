"""Pages for tests: small, whole, and long enough to be an article."""

from __future__ import annotations

from core.pages.metadata import MetadataElement, PageMetadata, collect_metadata

URL = "https://mill.example/news/2025/01/water"
PARAGRAPH = "The mill has stood by the river for four hundred years, and the river has not always been kind to it."
ARTICLE = "".join(
    f"<p>{PARAGRAPH} In the {ordinal} of those years the wheel was lost, and the village paid for another.</p>"
    for ordinal in ("tenth", "hundredth", "two hundredth", "three hundredth", "last")
)


def page(body: str = "", head: str = "", lang: str = ' lang="en"') -> bytes:
    """An article with something added to its body and its head."""
    return (
        f"<!doctype html><html{lang}><head>{head}</head><body><article>{body}{ARTICLE}</article></body></html>".encode()
    )


def head(*elements: MetadataElement, url: str = URL) -> PageMetadata:
    return collect_metadata(elements, url)


def meta(name: str, content: str) -> MetadataElement:
    return MetadataElement("meta", {"property" if ":" in name else "name": name, "content": content})


def link(rel: str, href: str) -> MetadataElement:
    return MetadataElement("link", {"rel": rel, "href": href})


def titled(text: str) -> MetadataElement:
    return MetadataElement("title", {}, text)


def json_ld(text: str) -> MetadataElement:
    return MetadataElement("script", {"type": "application/ld+json"}, text)
