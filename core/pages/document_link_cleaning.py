"""Remove the tracking parameters of TRACKING_PARAM_PREFIXES from the links of a document.

The extractor has already removed those of the built-in list.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from core.models import Document, Image, RejectedUrl
from core.urls.normalise import public_url
from core.urls.tracking_parameters import tracker_matcher


def remove_trackers(document: Document, tracking_params: tuple[str, ...]) -> Document:
    """Return the document with clean links, image addresses and canonical URL."""
    if tracker_matcher(tracking_params) == tracker_matcher():
        return document
    images: dict[str, Image] = {}
    for image in document.images:
        images.setdefault(_without_trackers(image.url, tracking_params), image)
    return replace(
        document,
        image=_without_trackers(document.image, tracking_params),
        canonical_url=_without_trackers(document.canonical_url, tracking_params),
        images=tuple(replace(image, url=url) for url, image in images.items()),
        links=remove_trackers_from_links(document.links, tracking_params),
    )


def remove_trackers_from_links(links: Iterable[str], tracking_params: tuple[str, ...]) -> tuple[str, ...]:
    """Return the links without trackers, each once."""
    if tracker_matcher(tracking_params) == tracker_matcher():
        return tuple(links)
    return tuple(dict.fromkeys(_without_trackers(url, tracking_params) for url in links))


def _without_trackers(url: str, tracking_params: tuple[str, ...]) -> str:
    cleaned = public_url(url, tracker_matcher(tracking_params)) if url else url
    return url if isinstance(cleaned, RejectedUrl) else cleaned
