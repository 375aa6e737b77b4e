"""The pictures of a page that are worth knowing: the one it names for sharing, then those of its text (spec 000 §8).

The rules are data: how small, how long and of which type a picture may not be. What a page does not say is not held
against a picture. Bounded: so many pictures are looked at, so many are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from core.models import Image
from core.pages.image import (
    MAX_IMAGES,
    Attributes,
    is_content_image,
    is_image_address,
    is_ornament,
    largest_in_srcset,
    parse_pixels,
    single_addresses,
    stated_image,
)
from core.pages.metadata import PageMetadata
from core.pages.text_cleaning import collapse_whitespace, strip_unstorable, truncate

MAX_KEPT = 20
MAX_SOURCES = 10
"""Of one `<picture>`; the largest seen in the wild has six."""
MIN_PIXELS = 90
MAX_ASPECT = 5
"""Longer than that are banners and rules."""
MAX_ALT_CHARS = 300
TYPES = {
    **dict.fromkeys(("jpg", "jpeg"), "image/jpeg"),
    **{ending: f"image/{ending}" for ending in ("png", "gif", "webp", "avif")},
}
"""By ending. Another ending says nothing: many pictures are made by a script."""
REFUSED = frozenset(("svg", "svgz", "ico", "cur"))
"""Drawings and icons of the site, not of the story."""

# A set before the single address: it has the largest. `src` last: under a lazy loader it holds a placeholder.
_SETS = ("data-srcset", "data-lazy-srcset", "srcset")

_WIDTH = re.compile(r"\s\d{1,6}w\b")


class ImageElement(NamedTuple):
    """An `<img>`, and the `<source>`s beside it in its `<picture>`; free of the parser they came from."""

    attributes: Attributes
    sources: tuple[Attributes, ...] = ()


def collect_images(head: PageMetadata, pictures: Iterable[ImageElement]) -> tuple[Image, ...]:
    """The page's images, the stated one first, then these in their order, each once."""
    found: dict[str, Image] = {}
    shared = _shared(head)
    if shared is not None:
        found[shared.url] = shared
    for picture in islice(pictures, MAX_IMAGES):
        image = _image(picture, head)
        if image is None:
            continue
        if image.url in found:
            found[image.url] = _completed(found[image.url], image)
        elif len(found) < MAX_KEPT:
            found[image.url] = image
    return tuple(found.values())


def _shared(head: PageMetadata) -> Image | None:
    """The image that the page names for itself; Open Graph says its size beside it."""
    url = stated_image(head)
    if not url:
        return None
    named = head.meta("og:image", "og:image:url", "og:image:secure_url")
    is_described = bool(named) and head.absolute(named) == url
    meta = head.meta if is_described else lambda *_: ""
    width, height = parse_pixels(meta("og:image:width")), parse_pixels(meta("og:image:height"))
    alt = meta("og:image:alt") or (head.meta("twitter:image:alt") if not is_described else "")
    return _accepted(url, alt, width, height)


def _image(picture: ImageElement, head: PageMetadata) -> Image | None:
    attributes = picture.attributes
    if is_ornament(attributes):
        return None
    width, height = (parse_pixels(attributes.get(side) or "") for side in ("width", "height"))
    if not _is_shapely(width, height):
        return None
    for address in _addresses(picture):
        url = head.absolute(address)
        if url and is_content_image(url):
            return _accepted(url, attributes.get("alt") or "", width, height)
    return None


def _addresses(picture: ImageElement) -> Iterable[str]:
    """Where the picture may be, best first; inline data is never where it is."""
    img = picture.attributes
    largest = [largest_in_srcset(img.get(name) or "") for name in _SETS]
    sources = (source.get(name) for source in picture.sources[:MAX_SOURCES] for name in _SETS)
    sets = ", ".join(filter(None, sources))
    *lazy, src = single_addresses(img)
    # Without widths, the alternatives are other types and the versions for small screens.
    last = (largest_in_srcset(sets), src) if _WIDTH.search(sets) else (src, largest_in_srcset(sets))
    return filter(is_image_address, (*largest, *lazy, *last))


def _accepted(url: str, alt: str, width: int, height: int) -> Image | None:
    ending = _ending(url)
    if ending in REFUSED or not _is_shapely(width, height):
        return None
    words = truncate(collapse_whitespace(strip_unstorable(alt[: 10 * MAX_ALT_CHARS])), MAX_ALT_CHARS)
    return Image(url, words, width, height, TYPES.get(ending, ""))


def _completed(image: Image, again: Image) -> Image:
    """The same picture, seen twice: what one place does not say, the other may."""
    sizes = (image.width, image.height) if image.width or image.height else (again.width, again.height)
    return replace(image, alt=image.alt or again.alt, width=sizes[0], height=sizes[1])


def _is_shapely(width: int, height: int) -> bool:
    """By what is stated; 0 is not stated."""
    if any(0 < side < MIN_PIXELS for side in (width, height)):
        return False
    return not (width and height) or max(width, height) <= MAX_ASPECT * min(width, height)


def _ending(url: str) -> str:
    path = url.partition("//")[2].partition("/")[2].partition("?")[0]
    return path.rpartition("/")[2].rpartition(".")[2].lower()
