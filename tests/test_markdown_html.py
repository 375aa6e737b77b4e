"""Markdown of strangers as HTML in our pages."""

from __future__ import annotations

import re

import pytest

from workers.web.dashboard.markdown_html import FIRST_CHARS, cut_text, render_markdown

PAGE = "https://example.org/guide/intro"
HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[a](javascript:alert(1))",
    "[a](JaVaScRiPt&colon;alert(1))",
    "[a](\x01javascript:alert(1))",
    "[a](data:text/html;base64,PHNjcmlwdD4=)",
    "[a](vbscript:x)",
    "![a](https://tracker.example/pixel.png)",
    "![a](javascript:alert(1))",
    '[a](https://e.org/"onmouseover="alert(1))',
    '[a](https://e.org/ "title\\" onmouseover=alert(1)")',
    "<javascript:alert(1)>",
    "[a]: javascript:alert(1)\n\n[a]",
    '```js" onload=alert(1)\nx\n```',
    "| a |\n|:-:|\n| <svg/onload=alert(1)> |",
    "# <b onclick=alert(1)>x</b>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "[a](//evil.example/x)",
    "[a](http://[::1)",
    "<" * 5_000 + "[" * 5_000,
]


@pytest.mark.parametrize("markdown", HOSTILE)
def test_nothing_of_a_text_runs_or_loads(markdown: str) -> None:
    """Only plain elements of ours, links to http and https without a referrer, no picture, no inline style."""
    html = str(render_markdown(markdown, PAGE))

    tags = re.findall(r"<(/?[a-z0-9]+)((?:\s+[a-z-]+=\"[^\"]*\")*)\s*/?>", html)
    assert "<" not in re.sub(r"</?[a-z0-9]+(?:\s+[a-z-]+=\"[^\"]*\")*\s*/?>", "", html)
    assert {name.lstrip("/") for name, _ in tags} <= {
        *("p", "a", "span", "pre", "code", "div", "table", "thead", "tbody", "tr", "th", "td", "h2", "em", "strong"),
    }
    assert {name for _, more in tags for name in re.findall(r"([a-z-]+)=", re.sub(r'"[^"]*"', '""', more))} <= {
        *("href", "rel", "class", "role", "aria-label", "tabindex"),
    }
    assert all(re.match(r"https?://", target) for target in re.findall(r'href="([^"]*)"', html))
    assert html.count("<a ") == html.count('rel="noreferrer noopener nofollow"')


def test_what_people_read() -> None:
    """Headings below the page's own, lists, tables, code, and relative links that work."""
    html = str(render_markdown("# One\n\n- **a** [b](../c)\n\n`x`\n\n| h |\n|---|\n| d |\n\n![Weir](w.jpg)", PAGE))

    assert "<h2>One</h2>" in html
    assert '<strong>a</strong> <a href="https://example.org/c"' in html
    assert "<td>d</td>" in html
    assert "<code>x</code>" in html
    assert "Picture: Weir" in html


def test_long_text_is_cut_at_a_paragraph() -> None:
    """The first part at once, the rest on request; what is left out is counted."""
    text = "\n\n".join("word " * 50 for _ in range(400))
    shown, left = cut_text(text, whole=False)

    assert len(shown) <= FIRST_CHARS
    assert text[len(shown) :].startswith("\n\n")
    assert len(shown) + left == len(text)
    assert cut_text(text, whole=True) == (text, 0)
    assert cut_text("x" * 40_000, whole=False) == ("x" * FIRST_CHARS, 40_000 - FIRST_CHARS)
