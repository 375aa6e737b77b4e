"""The pictures of a page: which are kept, where they are, what is known of them."""

from __future__ import annotations

import pytest

from core.models import Document, Image
from core.pages.extract import extract_page
from core.pages.images import (
    MAX_ALT_CHARS,
    MAX_KEPT,
    ImageElement,
    collect_images,
    largest_in_srcset,
    stated_image,
)
from core.runtime.parse_pool import ParsePool
from core.runtime.parse_tasks import PageRequest
from tests.pages import ARTICLE, URL, head, meta, page

BASE = "https://mill.example"


@pytest.mark.parametrize(
    ("name", "attributes", "expected"),
    [
        ("plain", {"src": "/a.jpg"}, "/a.jpg"),
        ("no ending", {"src": "/image.php?id=1"}, "/image.php?id=1"),
        ("svg", {"src": "/a.svg"}, ""),
        ("svg with a query", {"src": "/a.SVG?v=1"}, ""),
        ("ico", {"src": "/a.ico"}, ""),
        ("pixel", {"src": "/a.gif", "width": "1", "height": "1"}, ""),
        ("small on one side", {"src": "/a.jpg", "width": "600", "height": "89"}, ""),
        ("just large enough", {"src": "/a.jpg", "width": "90", "height": "90px"}, "/a.jpg"),
        ("banner", {"src": "/a.jpg", "width": "970", "height": "100"}, ""),
        ("pillar", {"src": "/a.jpg", "width": "100", "height": "501"}, ""),
        ("five to one", {"src": "/a.jpg", "width": "500", "height": "100"}, "/a.jpg"),
        ("relative sizes", {"src": "/a.jpg", "width": "100%", "height": "auto"}, "/a.jpg"),
        ("tracker", {"src": "https://pixel.wp.com/g.gif"}, ""),
        ("spacer", {"src": "/img/spacer.gif"}, ""),
        ("ornament by class", {"src": "/a.jpg", "class": "avatar"}, ""),
        ("ornament by name", {"src": "/img/logo.png"}, ""),
        ("lazy", {"src": "/placeholder.png", "data-src": "/a.jpg"}, "/a.jpg"),
        ("lazy set", {"src": "data:image/gif;base64,R0", "data-srcset": "/s.jpg 300w, /l.jpg 900w"}, "/l.jpg"),
        ("set before src", {"src": "/s.jpg", "srcset": "/m.jpg 600w, /l.jpg 1200w"}, "/l.jpg"),
        ("data only", {"src": "data:image/png;base64,AAAA"}, ""),
        ("blob", {"src": "blob:https://mill.example/1"}, ""),
        ("script", {"src": "javascript:alert(1)"}, ""),
        ("nothing", {}, ""),
    ],
)
def test_rules(name: str, attributes: dict[str, str | None], expected: str) -> None:
    """A picture of the story is kept at its best address; ornaments, pixels and banners are not."""
    found = [image.url for image in collect_images(head(), "", [ImageElement(attributes)])]
    assert found == ([f"{BASE}{expected}"] if expected else [])


@pytest.mark.parametrize(
    "address",
    [
        *(
            f"/{word}.gif"
            for word in ["1x1", "pixel", "spacer", "blank", "transparent", "clear", "trans", "empty", "dot", "tracker"]
        ),
        *(f"/a?{word}=1" for word in ["tracking", "beacon", "count", "counter"]),
        *(f"https://b.{host}/a.jpg" for host in ["doubleclick.net", "scorecardresearch.com", "google-analytics.com"]),
        *(f"//{host}/a.jpg" for host in ["quantserve.com", "stats.wordpress.com", "amazon-adsystem.com", "adnxs.com"]),
        *(
            f"//{host}/a.jpg"
            for host in ["outbrain.com", "taboola.com", "chartbeat.net", "zemanta.com", "pixel.wp.com"]
        ),
        *("https://www.facebook.com/tr?id=1", "https://feeds.feedburner.com/~r/a", "https://a.example/wf/open?b"),
    ],
)
def test_tracking_pixels(address: str) -> None:
    """Whatever the name of the counter, it is no picture, also where the page names it for sharing."""
    assert collect_images(head(), "", [ImageElement({"src": address})]) == ()
    assert stated_image(head(meta("og:image", address))) == ""


@pytest.mark.parametrize(
    ("name", "sources", "img", "expected"),
    [
        ("widths", [{"srcset": "/s.avif 400w, /l.avif 1600w"}], {"src": "/a.jpg"}, "/l.avif"),
        ("other types", [{"srcset": "/a.webp"}], {"src": "/a.jpg"}, "/a.jpg"),
        ("placeholder", [{"srcset": "/a.webp"}], {"src": "data:,"}, "/a.webp"),
        ("lazy source", [{"data-srcset": "/a.webp"}], {}, "/a.webp"),
        ("own set first", [{"srcset": "/s.avif 400w"}], {"srcset": "/l.jpg 900w"}, "/l.jpg"),
    ],
)
def test_picture_sources(name: str, sources: list[dict[str, str | None]], img: dict[str, str], expected: str) -> None:
    """`<source>` is where the largest is, or the only one."""
    (image,) = collect_images(head(), "", [ImageElement(img, tuple(sources))])
    assert image.url == f"{BASE}{expected}"


@pytest.mark.parametrize(
    ("srcset", "expected"),
    [
        ("/a.jpg 1x,/b.jpg 2x", "/b.jpg"),
        ("/a.jpg, /b.jpg 2x", "/b.jpg"),
        ("/w_1,h_2/a.jpg 300w, /w_3,h_4/b.jpg 900w", "/w_3,h_4/b.jpg"),
        ("data:image/gif;base64,R0 9000w, /a.jpg 10w", "/a.jpg"),
        ("/only.jpg", "/only.jpg"),
        (" , ,, ", ""),
        ("/a.jpg nonsense, /b.jpg 2x", "/b.jpg"),
        ("", ""),
    ],
)
def test_largest_of_a_set(srcset: str, expected: str) -> None:
    """The widest or densest, also where only a comma sets candidates apart."""
    assert largest_in_srcset(srcset) == expected


def test_what_is_known() -> None:
    """Alt text in one line and cut, size and type where they are stated."""
    attributes = {"src": "/a.webp", "alt": f" The\n wheel\x00 {'x ' * 400}", "width": "640", "height": "480px"}
    (image,) = collect_images(head(), "", [ImageElement(attributes)])
    assert (image.width, image.height, image.mime_type) == (640, 480, "image/webp")
    assert image.alt.startswith("The wheel x x")
    assert len(image.alt) <= MAX_ALT_CHARS


def test_the_shared_one_first_and_once() -> None:
    """The Open Graph image leads, with its size, and takes the alt text of its twin in the page."""
    stated = head(meta("og:image", "/b.jpg"), meta("og:image:width", "1200"), meta("og:image:height", "630"))
    pictures = [ImageElement({"src": "/a.png"}), ImageElement({"src": "/b.jpg#x", "alt": "Wheel"})]
    found = collect_images(stated, stated_image(stated), pictures)
    assert found == (
        Image(f"{BASE}/b.jpg", "Wheel", 1200, 630, "image/jpeg"),
        Image(f"{BASE}/a.png", mime_type="image/png"),
    )


def test_at_most_twenty() -> None:
    """A gallery is cut, and a flood is not even looked at."""
    pictures = (ImageElement({"src": f"/{number}.jpg"}) for number in range(100_000))
    assert len(collect_images(head(), "", pictures)) == MAX_KEPT
    assert next(pictures).attributes["src"] == "/200.jpg"


STORY = (
    '<header><picture><source srcset="/h-400.avif 400w, /h-1600.avif 1600w"><img src="/h.jpg" alt="Hero"></picture>'
    '</header><img data-src="/lazy.jpg"><noscript><img src="/script.jpg"></noscript><aside><img src="/a.jpg"></aside>'
)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("main_text", [True, False], ids=["main", "all"])
async def test_the_region_of_the_story(parse_pool: ParsePool, main_text: bool) -> None:
    """Images of the longest article, its header included; not those of navigation, asides and other articles."""
    html = page(STORY).decode()
    html = html.replace("<body>", '<body><nav><img src="/nav.jpg"></nav><main>')
    html = html.replace("</body>", '<article><img src="/other.jpg">Another story</article></main></body>')
    result = await parse_pool.run("page", PageRequest(html.encode(), URL, "text/html", main_text))
    assert [image.url.removeprefix(BASE) for image in result.document.images] == [
        "/h-1600.avif",
        "/lazy.jpg",
        "/script.jpg",
    ]


@pytest.mark.parametrize("main_text", [True, False], ids=["main", "all"])
def test_a_page_without_regions(main_text: bool) -> None:
    """Without article and main, the whole page but its furniture counts; a form around everything is no furniture."""
    html = (
        f'<html><body><form><header><img src="/top.jpg"></header><div><img src="/a.jpg">{ARTICLE}</div></form></body>'
    )
    document = extract_page(html.encode(), URL, "text/html", main_text=main_text).result
    assert isinstance(document, Document)
    assert [image.url for image in document.images] == [f"{BASE}/a.jpg"]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("main_text", [True, False], ids=["main", "all"])
@pytest.mark.parametrize(
    "unit",
    [
        "<img src=/x.jpg>",
        "<article><img src=/x.jpg>",
        "<picture><source srcset='/a 1w'>",
        "<img srcset='" + "/a.jpg 1w, " * 300 + "'>",
        "<main><nav><img src=x>",
        "<a href=/x>",
        "<a href=x:",
    ],
    ids=lambda unit: unit[:20],
)
async def test_floods(parse_pool: ParsePool, unit: str, main_text: bool, full: bool) -> None:
    """A megabyte of pictures or links stays within the pool's limits."""
    body = page(unit * ((1_000_000 if full else 250_000) // len(unit)))
    result = await parse_pool.run("page", PageRequest(body, URL, "text/html", main_text, links=True))
    assert result.document is not None or result.failed is not None, result
    assert result.document is None or len(result.document.images) <= MAX_KEPT
