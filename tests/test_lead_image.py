"""The picture of an article: named by the page, or the first real one in it."""

from __future__ import annotations

import pytest

from core.pages.images import first_image, stated_image
from core.pages.metadata import MetadataElement
from tests.pages import head, json_ld, link, meta

BASE = "https://mill.example"


@pytest.mark.parametrize(
    ("name", "elements", "expected"),
    [
        ("og", [meta("og:image", "/a.jpg"), meta("twitter:image", "/b.jpg")], f"{BASE}/a.jpg"),
        ("twitter", [meta("twitter:image", "//cdn.example/b.jpg")], "https://cdn.example/b.jpg"),
        ("JSON-LD", [json_ld('{"@type": "Article", "image": {"url": "/c.jpg"}}')], f"{BASE}/c.jpg"),
        ("JSON-LD list", [json_ld('{"@type": "Article", "image": ["/c.jpg", "/d.jpg"]}')], f"{BASE}/c.jpg"),
        ("link", [link("image_src", "d.jpg")], f"{BASE}/news/2025/01/d.jpg"),
        (
            "base",
            [MetadataElement("base", {"href": "https://cdn.example/x/"}), meta("og:image", "a.jpg")],
            "https://cdn.example/x/a.jpg",
        ),
        (
            "a base that is no address",
            [MetadataElement("base", {"href": "file:///"}), meta("og:image", "/a.jpg")],
            f"{BASE}/a.jpg",
        ),
        ("data", [meta("og:image", "data:image/png;base64,AAAA"), meta("og:image", "/a.jpg")], f"{BASE}/a.jpg"),
        ("pixel", [meta("og:image", "/1x1.gif")], ""),
        ("nothing", [], ""),
    ],
)
def test_stated(name: str, elements: list[MetadataElement], expected: str) -> None:
    """Absolute, on the web, and not a pixel."""
    assert stated_image(head(*elements)) == expected


@pytest.mark.parametrize(
    ("name", "images", "expected"),
    [
        ("plain", [{"src": "/a.jpg"}], f"{BASE}/a.jpg"),
        ("pixel by size", [{"src": "/p.gif", "width": "1", "height": "1"}, {"src": "/a.jpg"}], f"{BASE}/a.jpg"),
        ("tracker", [{"src": "https://pixel.wp.com/g.gif?x"}, {"src": "/a.jpg"}], f"{BASE}/a.jpg"),
        ("spacer", [{"src": "/img/spacer.gif"}, {"src": "/a.jpg"}], f"{BASE}/a.jpg"),
        (
            "logo",
            [{"src": "/img/logo.png"}, {"class": "site-icon", "src": "/b.png"}, {"src": "/a.jpg"}],
            f"{BASE}/a.jpg",
        ),
        ("words that only contain one", [{"src": "/logorrhea-iconoclast.jpg"}], f"{BASE}/logorrhea-iconoclast.jpg"),
        ("lazy", [{"src": "data:image/gif;base64,R0", "data-src": "/a.jpg"}], f"{BASE}/a.jpg"),
        ("set", [{"src": "data:,", "srcset": "/s.jpg 300w, /l.jpg 900w, /m.jpg 600w"}], f"{BASE}/l.jpg"),
        ("data only", [{"src": "data:image/gif;base64,R0"}], ""),
        ("script", [{"src": "javascript:alert(1)"}], ""),
        ("strange size", [{"src": "/a.jpg", "width": "100%", "height": "auto"}], f"{BASE}/a.jpg"),
        ("no address", [{}], ""),
    ],
)
def test_first(name: str, images: list[dict[str, str | None]], expected: str) -> None:
    """The first image that shows something of the story."""
    assert first_image(images, head()) == expected
