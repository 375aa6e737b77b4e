"""Site pages as simple HTML."""

from __future__ import annotations

import json
from html import escape
from typing import Any

import pytest

from core.pages.extract import extract_page
from core.sources.sharepoint.page_canvas import PageUnreadable
from core.sources.sharepoint.page_html import (
    CleanPage,
    clean_page,
    decode_original,
    encode_original,
    unread_web_parts,
)

QUICK_LINKS = {
    "id": "c70391ea-0b10-4ee9-b2b4-006d3fcad0cd",
    "title": "Quick links",
    "serverProcessedContent": {
        "searchablePlainTexts": {
            "title": "Tools",
            "items[10].title": "Last",
            "items[0].title": "Handbook",
            "items[0].description": "How we work",
            "items[2].title": "Bad",
        },
        "links": {
            "baseUrl": "https://x",
            "items[0].sourceItem.url": "/sites/demo/handbook.pdf",
            "items[2].sourceItem.url": "javascript:alert(1)",
        },
    },
    "properties": {},
}
IMAGE = {
    "id": "d1d91016-032f-456d-98a4-721247c305e8",
    "title": "Image",
    "serverProcessedContent": {"imageSources": {"imageSource": "/sites/demo/pump.png"}},
    "properties": {"altText": "A blue valve", "nested": [{"captionText": "Valve room"}]},
}
EVENTS = {"id": "20745d7d", "title": "Events", "serverProcessedContent": {"searchablePlainTexts": {"title": "Soon"}}}
DIVIDER = {"id": "2161a1c6-db61-4731-b97c-3cdb303f7cbb", "title": "Divider"}
WEB_PARTS: list[dict[str, Any]] = [QUICK_LINKS, IMAGE, EVENTS, DIVIDER]
TEXT = '<h2>Welcome</h2><p class="x" onclick="y()">Hello <b>all</b></p>'


def json_canvas() -> str:
    controls = [
        {"controlType": 3, "webPartId": part["id"], "webPartData": part, "position": {"zoneIndex": number + 2}}
        for number, part in enumerate(WEB_PARTS)
    ]
    text = {"controlType": 4, "innerHTML": TEXT, "position": {"zoneIndex": 1, "controlIndex": 1}}
    return json.dumps([*controls, text])


def html_canvas() -> str:
    """The same page as SharePoint's REST gives it: JSON in attributes, values beside it."""
    parts = [f'<div data-sp-canvascontrol=""><div data-sp-rte="">{TEXT}</div></div>']
    for part in WEB_PARTS:
        content = part.get("serverProcessedContent", {})
        texts = content.get("searchablePlainTexts", {})
        links, images = content.get("links", {}), content.get("imageSources", {})
        values = [
            f'<div data-sp-prop-name="{n}" data-sp-searchableplaintext="true">{t}</div>' for n, t in texts.items()
        ]
        values += [f'<a data-sp-prop-name="{name}" href="{url}"></a>' for name, url in links.items()]
        values += [f'<img data-sp-prop-name="{name}" src="{url}">' for name, url in images.items()]
        stated = {name: value for name, value in part.items() if name != "serverProcessedContent"}
        stated["padding"] = "word " * 4000  # longer than any tag that a parser is given
        data = escape(json.dumps(stated))
        parts.append(
            f'<div data-sp-canvascontrol="" data-sp-controldata="{{}}">'
            f'<div data-sp-webpart="" data-sp-webpartdata="{data}"><div data-sp-componentid="">{part["id"]}</div>'
            f'<div data-sp-htmlproperties="">{"".join(values)}</div></div></div>'
        )
    return f"<div>{''.join(parts)}</div>"


@pytest.mark.parametrize("canvas", [json_canvas(), html_canvas()], ids=["json", "html"])
def test_canvas_becomes_simple_html(canvas: str) -> None:
    """Texts, headings, quick links and image descriptions are read from both forms; a link that would run is not."""
    page = clean_page({"Title": "Home & more", "CanvasContent1": canvas})

    assert page.html.split("\n")[3:-2] == [
        "<h1>Home &amp; more</h1>",
        "<h2>Welcome</h2>",
        "<p>Hello <b>all</b></p>",
        "<h2>Tools</h2>",
        "<ul>",
        '<li><a href="/sites/demo/handbook.pdf">Handbook</a> – How we work</li>',
        "<li>Bad</li>",
        "<li>Last</li>",
        "</ul>",
        '<img src="/sites/demo/pump.png" alt="A blue valve"><p>A blue valve</p>',
        "<p>Valve room</p>",
        "<h2>Soon</h2>",
    ]


@pytest.mark.parametrize("canvas", [json_canvas(), html_canvas()], ids=["json", "html"])
def test_unread_web_parts_are_counted(canvas: str) -> None:
    """A web part whose content is elsewhere counts by its name; a divider has nothing to read."""
    page = clean_page({"CanvasContent1": canvas})

    assert page.unread_web_parts == unread_web_parts(page.html) == {"Events": 1}
    assert unread_web_parts(clean_page({}).html) == {}


def test_wiki_page_becomes_simple_html() -> None:
    """Layout tables, hidden data, scripts and empty paragraphs go; words, lists and data tables stay."""
    wiki = (
        '<table id="layoutsTable"><tbody><tr><td><div class="ms-rte-layoutszone-inner"><h2>Rules</h2><p>\u200b</p>'
        '<p>See <script>run()</script><a href="javascript:x">this</a>, <a href="/a?b=1&amp;c=2">that</a>'
        '<img src="/p.png" alt="A red pump"></p>loose<div>text</div>'
        "<table><tr><th>Name</th><th>Value</th></tr><tr><td><p>One</p><p>Uno</p></td><td>1 &lt; 2</td></tr></table>"
        "<ul><li>a<ul><li>b</li></ul></li></ul></div></td></tr></tbody></table>"
        '<div class="ms-rtestate-read ms-rte-wpbox"><div id="div_1"></div></div>'
        '<span id="layoutsData" style="display:none">false,false,1</span>'
    )
    page = clean_page({"Title": "T", "WikiField": wiki})

    assert page.html.split("\n")[4:-2] == [
        "<h2>Rules</h2>",
        '<p>See this, <a href="/a?b=1&amp;c=2">that</a></p>',
        '<img src="/p.png" alt="A red pump"><p>A red pump</p>',
        "<p>loose</p>",
        "<p>text</p>",
        "<table>",
        "<tr><th>Name</th><th>Value</th></tr>",
        "<tr><td>One<br>Uno</td><td>1 &lt; 2</td></tr>",
        "</table>",
        "<ul>",
        "<li>a",
        "<ul>",
        "<li>b</li>",
        "</ul></li>",
        "</ul>",
    ]
    assert page.unread_web_parts == {"Classic web part": 1}


def test_clean_page_reads_well() -> None:
    """The extractor that reads every page finds title, text, links, tables and image descriptions."""
    table = "<table><tr><th>Pump</th><th>Room</th></tr><tr><td><p>P-101</p></td><td>Cellar</td></tr></table>"
    page = clean_page({"Title": "Plant", "CanvasContent1": json_canvas(), "WikiField": table})
    extraction = extract_page(page.html.encode(), "https://x.example/sites/a.aspx", "text/html", is_article=False)

    document: Any = extraction.result
    assert document.title == "Plant"
    for words in ("## Welcome", "Hello all", "- Handbook – How we work", "A blue valve", "| P-101 | Cellar |"):
        assert words in document.markdown


@pytest.mark.parametrize(
    "values",
    [
        {"Title": "A </title><b>", "CanvasContent1": '[{"controlType": 0}]', "WikiField": "</html> &amp; 😀\nx"},
        {"Title": "", "WikiField": "<!-- -->"},
        {"Title": "only"},
    ],
)
def test_original_keeps_the_fields(values: dict[str, str]) -> None:
    """What SharePoint gave is found again in the original, whatever it holds."""
    assert decode_original(encode_original(values)) == values


def test_foreign_original_is_read_as_html() -> None:
    """A file that somebody else put there is cleaned as a whole."""
    page = clean_page(decode_original("<html><head><title>Old</title></head><body><p>Text</p></body></html>"))

    assert "<h1>Old</h1>\n<p>Text</p>" in page.html


def test_same_page_gives_the_same_bytes() -> None:
    """Cleaning is deterministic: an unchanged page is not embedded again."""
    first, second = (clean_page({"Title": "T", "CanvasContent1": html_canvas()}) for _ in range(2))

    assert first == second == CleanPage(second.html, {"Events": 1})


@pytest.mark.parametrize(
    "values",
    [
        {"CanvasContent1": "[" * 50_000},
        {"CanvasContent1": '[{"controlType":3'},
        {"CanvasContent1": "x" * 5_000_001},
    ],
    ids=["deep", "cut", "huge"],
)
def test_unreadable_canvas_is_refused(values: dict[str, str]) -> None:
    """JSON that cannot be read, and a field beyond all measure, are an error with a sentence."""
    with pytest.raises(PageUnreadable, match=r"\.$"):
        clean_page(values)


@pytest.mark.parametrize(
    "wiki",
    [
        "<div>" * 20_000 + "deep" + "</div>" * 20_000,
        "<blockquote><ul><li>" * 3_000 + "deep",
        "<b><i>" * 10_000 + "deep",
        "<table><tr><td>" * 2_000 + "deep",
        "<div data-sp-rte><div data-sp-prop-name=x>" * 2_000 + "deep",
        "<a href=x>" * 20_000 + "deep",
    ],
    ids=["div", "lists", "emphasis", "tables", "parts", "links"],
)
def test_hostile_markup_is_bounded(wiki: str) -> None:
    """Absurdly deep markup is read without exhausting the stack, and its words stay."""
    assert "deep" in clean_page({"WikiField": wiki, "CanvasContent1": wiki}).html


@pytest.mark.parametrize(
    "canvas",
    [
        "[]",
        "[1, null, []]",
        '{"a": 1}',
        '[{"controlType": 3, "webPartData": "x"}]',
        '[{"position": {"zoneIndex": "x"}}]',
    ],
)
def test_odd_canvas_is_an_empty_page(canvas: str) -> None:
    """Values of another shape than SharePoint's are passed over."""
    assert "<h1>T</h1>" in clean_page({"Title": "T", "CanvasContent1": canvas}).html
