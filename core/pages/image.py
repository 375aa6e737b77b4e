"""The picture of an article: the one it names for sharing, else the first real one in it (trap T40).

Real means: an http(s) address, no tracking pixel, no spacer, and in the text also no icon, avatar or logo.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from core.pages import json_ld
from core.pages.metadata import PageMetadata

Attributes = Mapping[str, str | None]

MAX_IMAGES = 200
_MIN_PIXELS = 90
_METAS = ("og:image", "og:image:url", "og:image:secure_url", "twitter:image", "twitter:image:src", "thumbnail", "image")
# Where lazy loaders keep the address; before `src`, which then holds a placeholder.
_LAZY = ("data-src", "data-original", "data-lazy-src", "data-lazy", "data-url", "data-image", "data-hi-res-src", "src")
_SETS = ("data-srcset", "data-lazy-srcset", "srcset")
_NOTHING = re.compile(
    r"(?:^|[/._?&=-])(?:1x1|pixel|spacer|blank|transparent|clear|trans|empty|dot|tracker?|tracking|beacon|count(?:er)?)"
    r"(?:[/._?&=-]|$)"
    r"|//(?:[^/]+\.)?(?:doubleclick\.net|scorecardresearch\.com|google-analytics\.com|quantserve\.com|pixel\.wp\.com"
    r"|stats\.wordpress\.com|amazon-adsystem\.com|adnxs\.com|outbrain\.com|taboola\.com|chartbeat\.net|zemanta\.com)/"
    r"|facebook\.com/tr[?/]|feedburner\.com/~r|/wf/open\?",
    re.IGNORECASE,
)
_ORNAMENT = re.compile(
    r"(?:^|[\W_])(?:icons?|logos?|avatars?|gravatar|sprites?|placeholder|emoji|smil(?:ey|ies)|badges?|buttons?|btn"
    r"|loading|loader|spinner|favicon|share|social|rss|ads?|advert|banner|captcha|profile|author)(?:[\W_]|$)",
    re.IGNORECASE,
)
_SIZE = re.compile(r"\s*(\d+)(?:\.\d+)?\s*(?:px)?\s*$")


def stated_image(head: PageMetadata) -> str:
    """The image that the page names for itself."""
    named = [value for name in _METAS for value in head.metas.get(name, ())]
    named += json_ld.urls(head.article, "image") + json_ld.urls(head.article, "thumbnailUrl")
    named += head.links.get("image_src", [])
    return next((url for url in map(head.absolute, named) if url and not _NOTHING.search(url)), "")


def first_image(images: Iterable[Attributes], head: PageMetadata) -> str:
    """The first real image of these, in their order."""
    for attributes in islice(images, MAX_IMAGES):
        if not _is_small(attributes) and not is_ornament(attributes):
            for address in _addresses(attributes):
                url = head.absolute(address)
                if url and is_content_image(url):
                    return url
    return ""


def is_content_image(url: str) -> bool:
    """Does this address of a picture in the text look like one, and not like a pixel, a spacer or an ornament?"""
    return not _NOTHING.search(url) and not _ORNAMENT.search(url.partition("//")[2].partition("/")[2])


def is_image_address(text: str) -> bool:
    """No inline data: that is how placeholders are written."""
    return bool(text) and not text[:10].lower().startswith(("data:", "blob:", "about:"))


def single_addresses(attributes: Attributes) -> list[str]:
    """The addresses an image names one by one, the placeholder's place last."""
    return [(attributes.get(name) or "").strip() for name in _LAZY]


def largest_in_srcset(srcset: str) -> str:
    """The widest or densest of `a.jpg 300w, b.jpg 900w`."""
    best, best_size = "", -1.0
    for address, size in _candidates(srcset[:5_000].split()):
        try:
            number = float(size[:-1] or 1)
        except ValueError:
            number = 1.0
        if number > best_size and is_image_address(address):
            best, best_size = address, number
    return best


def parse_pixels(stated: str) -> int:
    """`640`, `640px` or `640.5` as a number; 0 for what says nothing."""
    found = _SIZE.match(stated[:40])
    return int(found[1][:9]) if found else 0


def is_ornament(attributes: Attributes) -> bool:
    """Does the image say itself that it is an icon, an avatar or the like?"""
    words = f"{attributes.get('class') or ''} {attributes.get('id') or ''} {attributes.get('role') or ''}"
    return bool(_ORNAMENT.search(words)) or attributes.get("aria-hidden") == "true"


def _addresses(attributes: Attributes) -> list[str]:
    *lazy, last = single_addresses(attributes)
    sets = [largest_in_srcset(attributes.get(name) or "") for name in _SETS]
    return [address for address in (*lazy, *sets, last) if is_image_address(address)]


def _candidates(words: list[str]) -> Iterator[tuple[str, str]]:
    """Addresses and sizes of a set, as the standard splits it: an address ends at white space and may hold commas."""
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


def _is_small(attributes: Attributes) -> bool:
    sizes = (_SIZE.match(attributes.get(name) or "") for name in ("width", "height"))
    return any(size is not None and int(size[1][:9]) < _MIN_PIXELS for size in sizes)
