"""Select the images of an article: the lead image, and all images worth keeping.

The lead image is the one the page names for sharing, else the first content image in its text. A content image has an
http(s) address and is no tracking pixel, spacer, icon, avatar or logo. A size that the page does not state is not held
against an image. So many images are looked at, so many are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from core.models import Image
from core.pages import json_ld
from core.pages.metadata import PageMetadata
from core.pages.text_cleaning import collapse_whitespace, strip_unstorable, truncate

Attributes = Mapping[str, str | None]

MAX_IMAGES = 200
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
"""By ending. Another ending says nothing: many images are made by a script."""
REFUSED_ENDINGS = frozenset(("svg", "svgz", "ico", "cur"))
"""Drawings and icons of the site, not of the article."""

_METAS = ("og:image", "og:image:url", "og:image:secure_url", "twitter:image", "twitter:image:src", "thumbnail", "image")
# Where lazy loaders keep the address; before `src`, which then holds a placeholder.
_LAZY = ("data-src", "data-original", "data-lazy-src", "data-lazy", "data-url", "data-image", "data-hi-res-src", "src")
_SETS = ("data-srcset", "data-lazy-srcset", "srcset")
# All in lower case: addresses are lowered first, as matching without regard to case takes several times as long.
_TRACKING_PIXEL = re.compile(
    r"(?:^|[/._?&=-])(?:1x1|pixel|spacer|blank|transparent|clear|trans|empty|dot|tracker|tracking|beacon|count(?:er)?)"
    r"(?:[/._?&=-]|$)"
    r"|//(?:[^/]+\.)?(?:doubleclick\.net|scorecardresearch\.com|google-analytics\.com|quantserve\.com|pixel\.wp\.com"
    r"|stats\.wordpress\.com|amazon-adsystem\.com|adnxs\.com|outbrain\.com|taboola\.com|chartbeat\.net|zemanta\.com)/"
    r"|facebook\.com/tr[?/]|feedburner\.com/~r|/wf/open\?",
)
_ORNAMENTS = frozenset(
    (
        *("icon", "icons", "logo", "logos", "avatar", "avatars", "gravatar", "sprite", "sprites", "placeholder"),
        *("emoji", "smiley", "smilies", "badge", "badges", "button", "buttons", "btn", "loading", "loader", "spinner"),
        *("favicon", "share", "social", "rss", "ad", "ads", "advert", "banner", "captcha", "profile", "author"),
    )
)
# One of these words is in every address that `_TRACKING_PIXEL` finds: to cut an address into words takes a fifth of the
# time of the pattern, and answers for ornaments too.
_WORDS_OF_PIXELS = frozenset(
    (
        *("1x1", "pixel", "spacer", "blank", "transparent", "clear", "trans", "empty", "dot", "tracker"),
        *("tracking", "beacon", "count", "counter", "doubleclick", "scorecardresearch", "analytics", "quantserve"),
        *("wordpress", "adsystem", "adnxs", "outbrain", "taboola", "chartbeat", "zemanta", "facebook", "feedburner"),
        "wf",
    )
)
_find_words = re.compile(r"[^\W_]+").findall
_WIDTH = re.compile(r"\s\d{1,6}w\b")
_SIZE = re.compile(r"\s*(\d+)(?:\.\d+)?\s*(?:px)?\s*$")


class ImageElement(NamedTuple):
    """An `<img>` and the `<source>`s beside it in its `<picture>`, independent of the parser."""

    attributes: Attributes
    sources: tuple[Attributes, ...] = ()


def stated_image(metadata: PageMetadata) -> str:
    """Return the image that the page names for sharing, or an empty string."""
    named = [value for name in _METAS for value in metadata.metas.get(name, ())]
    named += json_ld.urls(metadata.article, "image") + json_ld.urls(metadata.article, "thumbnailUrl")
    named += metadata.links.get("image_src", [])
    return next((url for url in map(metadata.absolute, named) if url and not _is_tracking_pixel(url.lower())), "")


def first_image(images: Iterable[Attributes], metadata: PageMetadata) -> str:
    """Return the address of the first content image, or an empty string."""
    for attributes in islice(images, MAX_IMAGES):
        sizes = (_SIZE.match(attributes.get(side) or "") for side in ("width", "height"))
        is_small = any(size is not None and int(size[1][:9]) < MIN_PIXELS for size in sizes)
        if is_small or _is_ornament(attributes):
            continue
        *lazy, last = _single_addresses(attributes)
        sets = [largest_in_srcset(attributes.get(name) or "") for name in _SETS]
        for address in filter(_is_address, (*lazy, *sets, last)):
            url = metadata.absolute(address)
            if url and _is_content_image(url):
                return url
    return ""


def collect_images(metadata: PageMetadata, stated: str, elements: Iterable[ImageElement]) -> tuple[Image, ...]:
    """Return the page's images, each once: the one that it names for sharing first, then these in their order."""
    shared = _shared_image(metadata, stated)
    images = {shared.url: shared} if shared is not None else {}
    for element in islice(elements, MAX_IMAGES):
        image = _image(element, metadata)
        if image is None:
            continue
        if known := images.get(image.url):  # what one place does not state, the other may
            sized = known if known.width or known.height else image
            images[image.url] = replace(known, alt=known.alt or image.alt, width=sized.width, height=sized.height)
        elif len(images) < MAX_KEPT:
            images[image.url] = image
    return tuple(images.values())


def _shared_image(metadata: PageMetadata, url: str) -> Image | None:
    """The image that the page names for sharing; Open Graph states its size beside it."""
    if not url:
        return None
    named = metadata.meta("og:image", "og:image:url", "og:image:secure_url")
    is_described = bool(named) and metadata.absolute(named) == url
    meta = metadata.meta if is_described else lambda *_: ""
    width, height = _pixels(meta("og:image:width")), _pixels(meta("og:image:height"))
    alt = meta("og:image:alt") or (metadata.meta("twitter:image:alt") if not is_described else "")
    return _accepted(url, alt, width, height)


def _image(element: ImageElement, metadata: PageMetadata) -> Image | None:
    attributes = element.attributes
    if _is_ornament(attributes):
        return None
    width, height = (_pixels(attributes.get(side) or "") for side in ("width", "height"))
    if _has_refused_size(width, height):  # before any address is parsed, which takes longer
        return None
    for address in _addresses(element):
        url = metadata.absolute(address)
        if url and _is_content_image(url):
            return _accepted(url, attributes.get("alt") or "", width, height)
    return None


def _addresses(element: ImageElement) -> Iterator[str]:
    """Yield where the image may be, best first; never inline data. Nearly always the first is taken."""
    img = element.attributes
    yield from filter(_is_address, (largest_in_srcset(img.get(name) or "") for name in _SETS))
    *lazy, src = _single_addresses(img)
    yield from filter(_is_address, lazy)
    sources = (source.get(name) for source in element.sources[:MAX_SOURCES] for name in _SETS)
    sets = ", ".join(filter(None, sources))
    # Without widths, the alternatives are other types and the versions for small screens.
    last = (largest_in_srcset(sets), src) if _WIDTH.search(sets) else (src, largest_in_srcset(sets))
    yield from filter(_is_address, last)


def _has_refused_size(width: int, height: int) -> bool:
    is_small = any(0 < side < MIN_PIXELS for side in (width, height))  # 0 is not stated
    return is_small or (bool(width and height) and max(width, height) > MAX_ASPECT * min(width, height))


def _accepted(url: str, alt: str, width: int, height: int) -> Image | None:
    path = url.partition("//")[2].partition("/")[2].partition("?")[0]
    ending = path.rpartition("/")[2].rpartition(".")[2].lower()
    if ending in REFUSED_ENDINGS or _has_refused_size(width, height):
        return None
    words = truncate(collapse_whitespace(strip_unstorable(alt[: 10 * MAX_ALT_CHARS])), MAX_ALT_CHARS)
    return Image(url, words, width, height, TYPES.get(ending, ""))


def _is_content_image(url: str) -> bool:
    """Return whether the address looks like neither a pixel, a spacer nor an ornament."""
    lowered = url.lower()
    path = lowered.partition("//")[2].partition("/")[2]
    return _ORNAMENTS.isdisjoint(_find_words(path)) and not _is_tracking_pixel(lowered)


def _is_tracking_pixel(lowered: str) -> bool:
    return not _WORDS_OF_PIXELS.isdisjoint(_find_words(lowered)) and _TRACKING_PIXEL.search(lowered) is not None


def _is_address(text: str) -> bool:
    """Return whether this is no inline data. That is how placeholders are written."""
    return bool(text) and not text[:10].lower().startswith(("data:", "blob:", "about:"))


def _single_addresses(attributes: Attributes) -> list[str]:
    """The addresses that an image names one by one; last the one that may hold a placeholder."""
    return [(attributes.get(name) or "").strip() for name in _LAZY]


def largest_in_srcset(srcset: str) -> str:
    """Return the widest or densest of `a.jpg 300w, b.jpg 900w`."""
    if not srcset:  # as nineteen in twenty are
        return ""
    best, best_size = "", -1.0
    for address, size in _candidates(srcset[:5_000].split()):
        try:
            number = float(size[:-1] or 1)
        except ValueError:
            number = 1.0
        if number > best_size and _is_address(address):
            best, best_size = address, number
    return best


def _pixels(stated: str) -> int:
    """Return `640`, `640px` or `640.5` as a number; 0 for anything else."""
    match = _SIZE.match(stated[:40])
    return int(match[1][:9]) if match else 0


def _is_ornament(attributes: Attributes) -> bool:
    """Do the image's attributes call it an icon, an avatar or the like?"""
    words = f"{attributes.get('class') or ''} {attributes.get('id') or ''} {attributes.get('role') or ''}"
    return not _ORNAMENTS.isdisjoint(_find_words(words.lower())) or attributes.get("aria-hidden") == "true"


def _candidates(words: list[str]) -> Iterator[tuple[str, str]]:
    """Split a srcset into addresses and sizes as the standard does: an address ends at white space, may hold commas."""
    waiting = ""
    for word in words:
        if waiting:
            size, comma, glued = word.partition(",")  # `1x,b.jpg`: nothing but the comma sets the next apart
            yield waiting, size
            waiting = glued if comma else ""
        elif word.endswith(","):
            yield word.rstrip(","), ""
        else:
            waiting = word.lstrip(",")
    if waiting:
        yield waiting, ""
