"""Extract the main text of a page with trafilatura. Its fetcher and its metadata are not used.

The quick and strict mode reads every page. Where it finds little of the page's text, the slow and generous mode is run
too, and wins if it finds far more. Measured on three corpora (`python -m bench.extract`), that is within .003 of
trafilatura's best mode on each, where no single mode is; the generous mode runs on one page in seven.
"""

from __future__ import annotations

from copy import copy
from typing import Any, cast

from lxml import etree
from trafilatura.core import bare_extraction
from trafilatura.settings import MANUALLY_CLEANED, Extractor

LITTLE_SHARE = 0.5
"""Of the page's running text; with less the strict mode may have missed the article."""
FAR_MORE = 2.0
ENOUGH_CHARS = 5_000
"""With that much text the strict mode has found the article, however long the comments below it are."""

MAX_ELEMENTS = 10_000
"""The largest article of our corpora has 9,900. The extractor's time is quadratic for some shapes: 4 s at 12,000."""
MAX_FOR_GENEROUS = 5_000
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_AFTER_HEADING = frozenset(("p", "ul", "ol", "dl", "table", "pre", "blockquote", "figure", "img", "div"))
# Never text of an article, and copied several times over by the extractor.
_NO_TEXT = (
    *("style", "svg", "iframe", "template", "link", "meta", "canvas", "video", "audio", "object", "embed", "input"),
    *("select", "noscript"),
)
# The rest of trafilatura's list is handled by it in special ways.
_CLEANED = tuple(tag for tag in MANUALLY_CLEANED if tag not in ("form", "head", "figure", "math", "script"))
_COUNT = etree.XPath("count(.//*)")
_LINK_SPANS = etree.XPath(
    ".//p//span[contains(@class, 'link') or contains(@class, 'bottom') or contains(@style, 'border')]"
)
_STRICT = Extractor(output_format="xml", formatting=False, comments=False, fast=True, precision=True)
_GENEROUS = Extractor(output_format="xml", formatting=False, comments=False, recall=True)
_NOT_RUNNING_TEXT = ("nav", "footer", "aside", "form", "button", "a", "label", "script", "figcaption", "head")


def extract_main_text(root: etree._Element) -> etree._Element | None:
    """Return the body of the main text in trafilatura's elements; None if it finds none or the page is too large.

    Removes scripts, styles and other elements without text from `root`.
    """
    for script in root.iter("script"):
        # JSON-LD stays: the extractor knows a forum by it, and takes the text from it where there is no other.
        if script.get("type") != "application/ld+json":
            script.text = None
    etree.strip_elements(root, *_NO_TEXT, with_tail=False)
    size = cast("float", _COUNT(root))
    if size > MAX_ELEMENTS:
        return None
    _prepare_for_strict_mode(root)
    # The strict mode throws these away in any case, but only after searching them several times.
    strict, strict_chars = _run_trafilatura(_copy_without(root, _CLEANED), _STRICT)
    if strict_chars >= ENOUGH_CHARS or size > MAX_FOR_GENEROUS:
        return strict
    running_text = str(_copy_without(root, _NOT_RUNNING_TEXT).xpath("string(.)"))
    # No text is never enough, also where all text of the page looks like navigation.
    if strict_chars >= max(1, LITTLE_SHARE * len(" ".join(running_text.split()))):
        return strict
    generous, generous_chars = _run_trafilatura(root, _GENEROUS)
    return generous if generous_chars > FAR_MORE * strict_chars else strict


def _run_trafilatura(root: etree._Element, options: Extractor) -> tuple[etree._Element | None, int]:
    try:
        document: Any = bare_extraction(root, options=options)
    except Exception:  # noqa: BLE001 - on hostile trees it raises anything; then all text of the page is taken
        return None, 0
    if document is None or document.body is None:
        return None, 0
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
