"""Parse a page with lexbor and take all its text in one quick pass.

lexbor parses, removes what is not text and unwraps the tags inside sentences; every piece of text that is left is a
line. All of that happens in C.
"""

from __future__ import annotations

from collections.abc import Iterator

from selectolax.lexbor import LexborHTMLParser, LexborNode

from core.pages.images import MAX_SOURCES, Attributes, ImageElement
from core.pages.metadata import METADATA_TAGS, MetadataElement
from core.pages.noscript_article import drop_misleading_tags, is_article_in_noscript, is_long_text
from core.pages.parser_limits import MANY_TAGS, is_too_deep, limit_depth, limit_markup
from core.pages.text_cleaning import collapse_whitespace, strip_invisible
from core.pages.time_elements import (
    HEAD_BEGINS,
    MAX_CHARS_BEFORE,
    MAX_TIMES,
    SENTENCE_TAGS,
    TimeElement,
    may_be_publication,
)

MIN_CHARS = 250
"""With less text than this after removing navigation and the like, they were the page."""
_INVISIBLE_TAGS = ["script", "style", "template", "svg", "iframe"]
_NAVIGATION_TAGS = ["nav", "header", "footer", "aside", "form", "button", "select", "dialog"]
_OUTSIDE_ARTICLE = frozenset(("nav", "footer", "aside", "dialog"))
_MAX_BYLINES = 5
_MAX_PARAGRAPHS = 20
_MAX_IMAGES = 40
_MAX_ARTICLE_IMAGES = 200
_MAX_REGIONS = 50
_BLOCK_END = "\f"  # `decode_page` left none in the source
_CODE_BEGINS = "\v"  # none of these either
_CODE_TAG = frozenset(("pre",))
_INLINE_TAGS = (
    "a, b, i, em, strong, span, u, font, small, sup, sub, code, abbr, acronym, time, mark, cite, q, s, del, ins, "
    "label, bdi, bdo, kbd, samp, var, dfn, big, tt, strike, nobr, wbr, img"
)
_BYLINES = '[rel="author"], [itemprop~="author"], [class*="byline"], [class*="author-name"]'
_SELECTORS = {
    "script": 'script[type="application/ld+json"]',
    "link": 'link[rel="canonical"], link[rel="image_src"]',
    "meta": "meta[content]",
}
_METADATA_TAGS = frozenset(METADATA_TAGS)
_TAGS_WITH_TEXT = frozenset(("title", "h1", "script"))
_AROUND_TIMES = ", ".join(("time", "p", *HEAD_BEGINS))
_WANTED = ", ".join([_SELECTORS.get(tag, tag) for tag in METADATA_TAGS] + ["article", "main", "img", "pre"])


class LexborPage:
    """A page parsed by lexbor; offers what `LxmlPage` offers. Ask for its text last: that removes the rest."""

    def __init__(self, html: str) -> None:
        self._html = html
        self._tree = _parse(html)
        # All in one walk: each takes 0.1 ms, whatever it looks for.
        self._found = [(str(node.tag), node) for node in self._tree.css(_WANTED)]
        self._has_code = bool(self._tagged("pre"))

    def elements(self) -> Iterator[MetadataElement]:
        """Return the elements that `collect_metadata` reads."""
        for tag, node in self._found:
            if tag in _METADATA_TAGS and tag != "time":
                text = node.text() if tag in _TAGS_WITH_TEXT else ""
                yield MetadataElement(tag, node.attributes, text)

        times = (time for time in self._times() if may_be_publication(time))
        yield from (MetadataElement("time", time.attributes) for time in times)

    def _times(self) -> Iterator[TimeElement]:
        if not self._tagged("time"):  # most pages have none, and are not walked for their paragraphs
            return
        seen = chars = 0
        to_begin = set(HEAD_BEGINS)
        for node in self._tree.css(_AROUND_TIMES):
            if node.tag in HEAD_BEGINS:
                chars = 0 if node.tag in to_begin else chars
                to_begin.discard(str(node.tag))
                continue
            if node.tag == "p":
                chars += len(node.text()) if chars <= MAX_CHARS_BEFORE else 0
                continue
            seen += 1
            if seen > MAX_TIMES:
                return
            above = list(_ancestors(node))
            block = next((one for one in above if one.tag in SENTENCE_TAGS), above[0])
            ancestors = [(str(one.tag), one.attributes.get("class") or "") for one in above]
            line = collapse_whitespace(block.text())
            yield TimeElement(node.attributes, ancestors, line, chars <= MAX_CHARS_BEFORE)

    def bylines(self) -> tuple[str, ...]:
        """Return the text of elements that are marked as the author's name."""
        return tuple(collapse_whitespace(node.text()) for node in self._tree.css(_BYLINES)[:_MAX_BYLINES])

    def images(self) -> list[Attributes]:
        """Return the first images, those of an article if there is one."""
        images = self._tagged("img")
        inside = self._tree.css("article img, main img") if images else []
        return [node.attributes for node in (inside or images)[:_MAX_IMAGES]]

    def article_images(self) -> Iterator[ImageElement]:
        """Return the images of the article's region in page order, each with its alternatives."""
        images = self._tagged("img")
        region, outside = self._region() if images else (None, _OUTSIDE_ARTICLE)
        if region is None:
            return
        is_part = region.tag in ("article", "main")
        known = {region.mem_id: False}
        for node in (region.css("img") if is_part else images)[:_MAX_ARTICLE_IMAGES]:
            parent = node.parent
            if not _is_inside(parent, outside, known):
                sources = parent.css("source")[:MAX_SOURCES] if parent is not None and parent.tag == "picture" else ()
                yield ImageElement(node.attributes, tuple(source.attributes for source in sources))

    def anchors(self) -> Iterator[Attributes]:
        """Return all links of the page, navigation included."""
        return (node.attributes for node in self._tree.css("a[href], area[href]"))

    def _region(self) -> tuple[LexborNode | None, frozenset[str]]:
        """The region that `LxmlPage` chooses, and the tags whose content does not belong to the article."""
        article, article_chars = self._longest("article")
        main, main_chars = self._longest("main")
        if main is not None and 2 * article_chars < main_chars:
            article = main
        return (self._tree.root, _OUTSIDE_ARTICLE | {"header"}) if article is None else (article, _OUTSIDE_ARTICLE)

    def _longest(self, tag: str) -> tuple[LexborNode | None, int]:
        sized = [(node, len(node.text())) for node in self._tagged(tag)[:_MAX_REGIONS]]
        return max(sized, key=lambda pair: pair[1], default=(None, 0))

    def _tagged(self, tag: str) -> list[LexborNode]:
        return [node for found, node in self._found if found == tag]

    def lines(self) -> list[str]:
        """Return all text, block by block; without navigation and the like where other text remains.

        A block is a line, and code as many as it has: it ends with a line feed, as nothing else does.
        """
        self._found = []  # of what is removed now
        self._tree.strip_tags(_INVISIBLE_TAGS + _NAVIGATION_TAGS)
        inside = [node.text(separator=" ") for node in self._tree.css("noscript")]
        self._tree.strip_tags(["noscript"])
        lines = _lines(self._tree, self._has_code)
        is_hidden = is_article_in_noscript(inside, " ".join(lines))
        if sum(map(len, lines)) >= MIN_CHARS and not is_hidden:
            return lines
        self._tree = again = _parse(self._html)
        again.strip_tags(_INVISIBLE_TAGS + _NAVIGATION_TAGS if is_hidden else [*_INVISIBLE_TAGS, "noscript"])
        for node in again.css("noscript"):
            if is_long_text(node.text(separator=" ")):
                node.unwrap()
        again.strip_tags(["noscript"])
        return _lines(again, self._has_code)

    def has_code_samples(self) -> bool:
        """Return whether the page shows code or data in a `<pre>`."""
        return self._has_code

    def paragraphs(self) -> frozenset[str]:
        """Return the lines that stand in one of the first `<p>`."""
        return frozenset(collapse_whitespace(node.text()) for node in self._tree.css("p")[:_MAX_PARAGRAPHS])


def _parse(html: str) -> LexborHTMLParser:
    marks = html.count("<")
    html = drop_misleading_tags(limit_markup(html, marks))
    if marks > MANY_TAGS and is_too_deep(html):
        html = limit_depth(html, is_strict=True)
    return LexborHTMLParser(html)


def _is_inside(node: LexborNode | None, tags: frozenset[str], known: dict[int, bool]) -> bool:
    """Return whether the node or what is around it has one of these tags; `known` has the answers so far.

    Images share most of their ancestors, and each step up makes an object: a third of the time without the answers.
    """
    path: list[int] = []
    is_inside = False
    while node is not None and not is_inside:
        number = node.mem_id
        if number in known:
            is_inside = known[number]
            break
        path.append(number)
        is_inside = node.tag in tags
        node = node.parent
    known.update(dict.fromkeys(path, is_inside))
    return is_inside


def _ancestors(node: LexborNode) -> Iterator[LexborNode]:
    above = node.parent
    while above is not None and above.tag != "-document":
        yield above
        above = above.parent


def _lines(tree: LexborHTMLParser, has_code: bool) -> list[str]:
    for node in tree.css(_INLINE_TAGS):
        node.unwrap()
    tree.merge_text_nodes()
    if has_code:
        _mark_code(tree)
    root = tree.body or tree.root
    pieces = strip_invisible(root.text(separator=_BLOCK_END)).split(_BLOCK_END) if root is not None else []
    if has_code:
        return [line for line in map(_line, pieces) if line]
    return [" ".join(words) for words in map(str.split, pieces) if words]


def _mark_code(tree: LexborHTMLParser) -> None:
    """Make one text of each `<pre>`, line breaks and lines of a highlighter included."""
    known: dict[int, bool] = {}
    for node in [node for node in tree.css("pre") if not _is_inside(node.parent, _CODE_TAG, known)]:
        node.replace_with(_CODE_BEGINS + node.text(separator="\n"))


def _line(piece: str) -> str:
    if not piece.startswith(_CODE_BEGINS):
        return " ".join(piece.split())
    code = piece[1:].strip("\n").rstrip()
    return f"{code}\n" if code.strip() else ""
