"""Extract the main text with trafilatura. Slow: used only where our own extraction is in doubt.

The strict mode is run first. Where it finds little, and little of the page's text, the generous mode is run too, and
wins if it finds far more. trafilatura's fetcher and its metadata are not used.
"""

from __future__ import annotations

from copy import copy
from typing import Any, cast

from lxml import etree
from lxml.html import HtmlElement, HTMLParser
from trafilatura.core import bare_extraction
from trafilatura.settings import MANUALLY_CLEANED, Extractor

LITTLE_SHARE = 0.5
"""Of the page's running text; with less the strict mode may have missed the article."""
FAR_MORE = 2.0
ENOUGH_CHARS = 500
"""With that much text the strict mode has found the article, however long the rest of the page is."""

_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_AFTER_HEADING = frozenset(("p", "ul", "ol", "dl", "table", "pre", "blockquote", "figure", "img", "div"))
# The rest of trafilatura's list is handled by it in special ways.
_CLEANED = tuple(tag for tag in MANUALLY_CLEANED if tag not in ("form", "head", "figure", "math", "script"))
_LINK_SPANS = etree.XPath(
    ".//p//span[contains(@class, 'link') or contains(@class, 'bottom') or contains(@style, 'border')]"
)
_STRICT = Extractor(output_format="xml", formatting=False, comments=False, fast=True, precision=True)
_GENEROUS = Extractor(output_format="xml", formatting=False, comments=False, fast=True, recall=True)
# These characters are in no text that is stored, and the library takes them for letters.
_CODE_BEGINS = "\ufdd0"
_HIDDEN = {ord(space): chr(0xFDD1 + number) for number, space in enumerate("\n\t ")}
_SHOWN = {ord(hidden): chr(space) for space, hidden in _HIDDEN.items()}
_NOT_RUNNING_TEXT = ("nav", "footer", "aside", "form", "button", "a", "label", "script", "figcaption", "head")


def ask_trafilatura(page: etree._Element) -> etree._Element | None:
    """Return the body of the main text in trafilatura's elements; None if it finds none. Leaves `page` as it is."""
    root = _as_library_tree(page)
    if root is None:
        return None
    _prepare_for_strict_mode(root)
    # The strict mode throws these away in any case, but only after searching them several times.
    strict, strict_chars = _run_trafilatura(_copy_without(root, _CLEANED), _STRICT)
    if strict_chars >= ENOUGH_CHARS:
        return strict
    running_text = str(_copy_without(root, _NOT_RUNNING_TEXT).xpath("string(.)"))
    # No text is never enough, also where all text of the page looks like navigation.
    if strict_chars >= max(1, LITTLE_SHARE * len(" ".join(running_text.split()))):
        return strict
    generous, generous_chars = _run_trafilatura(root, _GENEROUS)
    return generous if generous_chars > FAR_MORE * strict_chars else strict


def _as_library_tree(page: etree._Element) -> etree._Element | None:
    """Parse the page again, into elements of the class that the library insists on; ours are quicker to walk."""
    parser = HTMLParser(collect_ids=False, default_doctype=False, encoding="utf-8", no_network=True, huge_tree=False)  # type: ignore[call-arg] # not in the stubs
    # One class for all elements: the library's own parser asks Python for the class of each, 7 % of the time.
    parser.set_element_class_lookup(etree.ElementDefaultClassLookup(element=HtmlElement))
    try:
        root = etree.fromstring(etree.tostring(page, encoding="utf-8", method="html"), parser)
    except etree.XMLSyntaxError:  # nothing is left of it
        return None
    for sample in root.findall(".//pre"):
        _hide_code(sample)
    for table in root.findall(".//table"):
        _simplify_table(table)
    return root


def _simplify_table(table: etree._Element) -> None:
    """Put the caption before the table and lists of its cells in line: the library has neither in a table."""
    caption, parent = table.find("caption"), table.getparent()
    if caption is not None and parent is not None:
        caption.tag, caption.tail = "p", None
        parent.insert(parent.index(table), caption)
    if table.find(".//table") is not None:  # there for the layout
        return
    for cell in table.iter("td", "th"):
        for item in cell.iter("li"):
            item.text = " " + (item.text or "")
            item.tail = " " + (item.tail or "")
        etree.strip_tags(cell, "ul", "ol", "li")


def _hide_code(sample: etree._Element) -> None:
    """Make a `<pre>` one word. The library takes it for a quote unless it sees brackets, and joins lines in lists."""
    for line_break in sample.iter("br"):
        line_break.tail = "\n" + (line_break.tail or "")
    code = str(sample.xpath("string(.)"))
    tail = sample.tail
    sample.clear()
    sample.tag, sample.tail = "code", tail
    if code.strip():
        sample.text = _CODE_BEGINS + code.translate(_HIDDEN)


def _show_code(body: etree._Element) -> None:
    for element in body.iter():
        if element.text and _CODE_BEGINS in element.text:
            element.text = element.text.replace(_CODE_BEGINS, "").translate(_SHOWN)
            if element.tag == "code":
                element.set("rend", "pre")
        if element.tail and _CODE_BEGINS in element.tail:
            element.tail = element.tail.replace(_CODE_BEGINS, " ").translate(_SHOWN)


def _run_trafilatura(root: etree._Element, options: Extractor) -> tuple[etree._Element | None, int]:
    try:
        document: Any = bare_extraction(root, options=options)
    except Exception:  # noqa: BLE001 - on hostile trees it raises anything; then our own reading stands
        return None, 0
    if document is None or document.body is None:
        return None, 0
    _show_code(document.body)
    return document.body, len(document.raw_text or "")


def _prepare_for_strict_mode(root: etree._Element) -> None:
    """Keep what the strict mode would take for navigation: linked headings above a section, links inside a sentence."""
    for heading in root.iter(*_HEADINGS):
        following = heading.getnext()
        if following is not None and following.tag in _AFTER_HEADING and heading.find(".//a") is not None:
            etree.strip_tags(heading, "a")
    for span in cast("list[etree._Element]", _LINK_SPANS(root)):
        span.attrib.clear()


def _copy_without(root: etree._Element, tags: tuple[str, ...]) -> etree._Element:
    rest = copy(root)
    etree.strip_elements(rest, *tags, with_tail=False)
    return rest
