"""Sitemaps of every allowed form, whole and hostile."""

from __future__ import annotations

import gzip

import pytest

from core.errors import NotAFeed
from core.sources.sitemap_pages import MAX_BYTES, MOST_CHARS, MOST_LISTED, SitemapResult, SitemapTask, read_sitemap

URL = "https://e.org/sitemap.xml"
SPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def read(body: str | bytes, content_type: str = "", **options) -> SitemapResult:
    return read_sitemap(SitemapTask(body.encode() if isinstance(body, str) else body, URL, content_type, **options))


def urlset(*entries: str) -> str:
    return f"<?xml version='1.0'?><urlset {SPACE}>{''.join(f'<url>{entry}</url>' for entry in entries)}</urlset>"


def test_pages_with_their_dates_newest_first() -> None:
    """Undated pages come last, in the order of the file."""
    result = read(
        urlset(
            "<loc>https://e.org/undated</loc>",
            "<loc>https://e.org/old</loc><lastmod>2024-01-01</lastmod>",
            "<lastmod>2025-01-01T00:00:00Z</lastmod><loc> https://e.org/new </loc><priority>1</priority>",
        )
    )
    assert result == SitemapResult(
        (("https://e.org/new", 1735689600.0), ("https://e.org/old", 1704067200.0), ("https://e.org/undated", None))
    )


def test_addresses_are_clean() -> None:
    """Trackers, credentials, fragments and repeats go; relative ones are made absolute; what is no address goes."""
    result = read(
        urlset(
            "<loc>/a?utm_source=x&amp;b=1#top</loc>",
            "<loc><![CDATA[https://E.org/a?b=1]]></loc>",
            "<loc>https://e.org/c?ours=1&amp;api_key=s</loc>",
            "<loc>mailto:me@e.org</loc>",
            "<loc></loc>",
            "",
        ),
        tracking_params=("ours",),
    )
    assert [url for url, _ in result.pages] == ["https://e.org/a?b=1", "https://e.org/c"]


def test_an_index_names_sitemaps() -> None:
    """Children have their dates too, and an index has no pages."""
    body = (
        f"<sitemapindex {SPACE}><sitemap><loc>a.xml</loc></sitemap>"
        "<sitemap><loc>https://e.org/b.xml.gz</loc><lastmod>2025-01-01</lastmod></sitemap></sitemapindex>"
    )
    assert read(body) == SitemapResult(
        children=(("https://e.org/b.xml.gz", 1735689600.0), ("https://e.org/a.xml", None))
    )


@pytest.mark.parametrize(
    "body",
    [
        gzip.compress(urlset("<loc>https://e.org/a</loc>").encode()),
        "\ufeff" + urlset("<loc>https://e.org/a</loc>"),
        "https://e.org/a\r\n",
        "\ufeffhttps://e.org/a\nnot a url\n\nhttps://e.org/a",
        urlset("<loc>https://e.org/a</loc>").replace(SPACE, ""),
        urlset("<loc>https://e.org/a</loc>").replace("</urlset>", ""),
        urlset("<loc>https://e.org/a</loc>").replace("<url>", "<url>\x01"),
        "<rss><channel><title>t</title><item><link>https://e.org/a</link></item></channel></rss>",
    ],
    ids=["gzip", "bom", "lines", "odd lines", "no namespace", "cut", "control", "rss"],
)
def test_every_form(body: str | bytes) -> None:
    """Whatever form the protocol allows, and the usual slips, give the page."""
    pages = [url for url, _ in read(body).pages]
    assert "https://e.org/a" in pages
    assert len(pages) <= 2


@pytest.mark.usefixtures("no_runaway")
def test_the_protocols_limit_is_read() -> None:
    """50,000 pages are read; what comes after is cut and told."""
    entries = (f"<loc>https://e.org/news/2025/page-{n}.html</loc><lastmod>2025-01-01</lastmod>" for n in range(50_010))
    body = urlset(*entries)
    result = read(body)
    assert (len(result.pages), result.is_truncated) == (MOST_LISTED, True)


def test_a_list_of_lines_has_the_same_limit() -> None:
    """A text file is cut at the same place."""
    result = read("".join(f"https://e.org/{n}\n" for n in range(MOST_LISTED + 2)))
    assert (len(result.pages), result.is_truncated) == (MOST_LISTED, True)
    result = read("".join(f"https://e.org/{n}\n" for n in range(MOST_LISTED)))
    assert (len(result.pages), result.is_truncated) == (MOST_LISTED, False)


def test_long_addresses_are_bounded_together() -> None:
    """An answer stays within what the pool takes."""
    result = read(urlset(*(f"<loc>https://e.org/{n}{'x' * 1_900}</loc>" for n in range(22_000))))
    assert MOST_CHARS // 2 < sum(len(url) for url, _ in result.pages) <= MOST_CHARS
    assert result.is_truncated


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("", "empty"),
        ("<!doctype html><html><body>not found</body></html>", "HTML"),
        ("<note>hello</note>", "root is <note>"),
        (b"\x1f\x8b\x08 broken", "damaged"),
        (gzip.compress(bytes(MAX_BYTES + 10)), "too large"),
    ],
    ids=["empty", "page", "other xml", "damaged", "bomb"],
)
def test_what_is_no_sitemap_says_so(body: str | bytes, text: str) -> None:
    """A sentence tells what it is instead."""
    with pytest.raises(NotAFeed, match=text):
        read(body)


def test_entities_do_not_explode() -> None:
    """A billion laughs are none."""
    lol = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    body = f'<!DOCTYPE x [<!ENTITY l0 "ha">{lol}]>' + urlset("<loc>https://e.org/&l9;</loc>").partition("?>")[2]
    assert sum(len(url) for url, _ in read(body).pages) < 1_000
