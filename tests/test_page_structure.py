"""Headings, lists, tables, code, quotes and captions of a page survive as Markdown: small pages, judged by hand."""

from __future__ import annotations

import pytest

from core.models import Document
from core.pages.extract import extract_page
from tests.pages import ARTICLE, PARAGRAPH, URL

LINE = "Look at the mill in the browser, which may take a while where the river is low."
FILLER = f"<p>{PARAGRAPH}</p>"


def markdown(body: str) -> str:
    navigation = "<nav><ul><li><a href=/a>Home</a></li><li><a href=/b>All guides</a></li></ul></nav>"
    html = (
        f"<html lang=en><head><title>Guide</title></head><body>{navigation}{body}<footer>Imprint</footer></body></html>"
    )
    found = extract_page(html.encode(), URL, "text/html").result
    assert isinstance(found, Document), found
    assert "All guides" not in found.markdown
    assert "Imprint" not in found.markdown
    return found.markdown


@pytest.mark.parametrize(
    ("name", "body", "expected"),
    [
        ("heading levels", "<h2>Wheel</h2>{p}<h3>Axle</h3>{p}", ["## Wheel", "### Axle"]),
        ("linked heading", "<h2 id=a>Wheel<a class=headerlink href='#a'>¶</a></h2>{p}", ["## Wheel\n"]),
        (
            "nested list",
            "{p}<ul><li>Oak boards<ul><li>two for the rim</li><li>eight for spokes</li></ul></li><li>Iron</li></ul>{p}",
            ["- Oak boards\n  - two for the rim\n  - eight for spokes\n- Iron"],
        ),
        (
            "numbered list",
            "{p}<ol><li>Close the sluice gate.</li><li>Lift the wheel.</li></ol>{p}",
            ["1. Close the sluice gate.\n2. Lift the wheel."],
        ),
        (
            "table with a header",
            "{p}<table><thead><tr><th>Year</th><th>Flood</th></tr></thead>"
            "<tbody><tr><td>1784</td><td>4.1 m</td></tr><tr><td>1845</td><td>3.9 m</td></tr></tbody></table>{p}",
            ["| Year | Flood |\n| --- | --- |\n| 1784 | 4.1 m |\n| 1845 | 3.9 m |"],
        ),
        (
            "code with its language",
            '{p}<pre><code class="language-python">def turn(wheel):\n    return wheel + 1</code></pre>{p}',
            ["```python\ndef turn(wheel):\n    return wheel + 1\n```"],
        ),
        (
            "code of a highlighter",
            '{p}<div class="highlight-bash notranslate"><div class="highlight"><pre><span></span>$ mill '
            '<span class="nt">--start</span>\n</pre></div></div>{p}',
            ["```bash\n$ mill --start\n```"],
        ),
        (
            "code in a sentence",
            "<p>Call <code>mill.start()</code> to open the sluice gate at once.</p>{p}",
            ["Call `mill.start()` to open"],
        ),
        (
            "definition list",
            "{p}<dl><dt>Sluice</dt><dd>A gate that lets water pass.</dd></dl>{p}",
            ["Sluice", "A gate that lets water pass."],
        ),
        (
            "quotation",
            "{p}<blockquote><p>The water decides, said the miller.</p></blockquote>{p}",
            ["> The water decides"],
        ),
        (
            "caption of a figure",
            "{p}<figure><img src=/w.jpg><figcaption>The wheel of 1784, seen from the western bank of the river."
            "</figcaption></figure>{p}",
            ["The wheel of 1784, seen from the western bank of the river."],
        ),
        (
            "line breaks",
            "<p>First line of verse,<br>second line of verse.</p>{p}",
            ["First line of verse, second line"],
        ),
        (
            "bold and links in a sentence",
            "<p>The <b>old</b> <a href=/m>mill wheel</a>s turn.</p>{p}",
            ["The old mill wheels turn."],
        ),
    ],
)
def test_structure(name: str, body: str, expected: list[str]) -> None:
    """Each kind of structure is there, in order, and the text around it too."""
    found = markdown(f"<main><h1>Guide</h1>{FILLER}{body.replace('{p}', FILLER)}{ARTICLE}</main>")
    for piece in expected:
        assert piece in found, name


@pytest.mark.parametrize(
    ("name", "body", "expected"),
    [
        (
            "in an item",
            f"<p>Install:</p><ol><li>Run:<pre>mill get\n  --now</pre></li><li>{LINE}</li></ol>",
            f"Install:\n\n1. Run:\n   ```\n   mill get\n     --now\n   ```\n2. {LINE}",
        ),
        (
            "between paragraphs",
            f"<p>{LINE}</p><pre>mill get</pre><p>Then start the mill and read its help at once.</p>",
            f"{LINE}\n\n```\nmill get\n```\n\nThen start the mill and read its help at once.",
        ),
    ],
)
def test_code_of_a_small_page(name: str, body: str, expected: str) -> None:
    """Little text is read by another library, which takes code for a quote; it is code all the same."""
    assert markdown(f"<main><h1>Guide</h1>{body}</main>") == expected, name


def test_table_of_a_small_page() -> None:
    """Little text is read by another library: the lists in cells and the caption are there too."""
    table = "<table><caption>Parts</caption><tr><th>Part<th>Needs<tr><td>Wheel<td><ul><li>oak<li>iron</ul></table>"
    found = markdown(f"<main><h1>Guide</h1><p>{LINE}</p>{table}<p>{LINE[::-1]}</p></main>")
    assert "Parts\n\n| Part | Needs |\n| --- | --- |\n| Wheel | oak iron |" in found
