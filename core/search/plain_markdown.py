"""Show Markdown as plain text: its marks go, words and numbers stay. Linear in time, whatever the text is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from html.entities import html5
from itertools import groupby

MOST_CHARS = 50_000
"""A chunk is a fiftieth of this; of a longer text only the beginning is shown."""

_FENCE = re.compile(r"[ \t]*(?:`{3,}+[^`]*|~{3,}+.*)$")
_RULE = re.compile(r"[ \t]*(?:[-*_=][ \t]*+){3,}+$|[ \t]*=+[ \t]*$")
_TABLE_RULE = re.compile(r"[ \t:|]*+-[-:| \t]*$")
_LINE_START = re.compile(r"[ \t]*(?:>[ \t]?)*+[ \t]*(?:#{1,6}(?:[ \t]+|$)|[-+*](?:[ \t]+|$)(?:\[[ xX]\][ \t]+)?)?")
_HEADING_END = re.compile(r"[ \t]#+[ \t]*$")
_FOOTNOTE = r"\[\^(?!\w-\w\])\w[\w.:-]{0,59}\]"  # [^a-z] is of a regular expression
_FOOTNOTE_START = re.compile(rf"{_FOOTNOTE}:[ \t]*")
_ALERT = re.compile(r"\[!(NOTE|TIP|IMPORTANT|WARNING|CAUTION)\][ \t]*$")
_DEFINITION = re.compile(
    r"\[(?P<label>(?!\^)[^\[\]]{1,200})\]:[ \t]*<?(?P<address>[^\s<>]{1,2000})>?"
    r"(?:[ \t]+(?:\"[^\"]*\"|'[^']*'|\([^()]*\)))?[ \t]*$"
)
_MOST_LABEL_PARTS = 9
_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n){2,}")
_TAGS = (
    "a|abbr|b|blockquote|br|center|code|dd|del|details|div|dl|dt|em|figcaption|figure|font|h[1-6]|hr|i|iframe|img|input"
    "|ins|kbd|li|mark|ol|p|picture|pre|q|s|samp|small|source|span|strong|sub|summary|sup|table|tbody|td|tfoot|th|thead"
    "|tr|tt|u|ul|var|video"
)
_CELL_BREAK = re.compile(r"(?<!\\)\|")
_INLINE = re.compile(
    r"(?=[\\`\[\]!<*_~=&\n])(?:"  # most letters begin none of these: a third of the time
    r"\\(?P<escaped>[!-/:-@\[-`{-~])"
    r"|`+(?P<code>[^`]*)`+"
    rf"|(?P<footnote>{_FOOTNOTE})"
    r"|(?P<entity>&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]\w{1,31});)"
    r"|(?P<link>\]\([ \t]*\n?[ \t]*(?:[^()\s\\]|\\.|\([^()\s]{0,500}\)){0,2000}+"
    r"(?:[ \t\n]+[\"'(][^\"'()\n]{0,300}[\"')])?[ \t]*\))"
    r"|(?P<reference>\]\[[^\[\]\n]{0,200}\])"
    r"|(?P<open>!?\[)"
    r"|(?P<close>\])"
    r"|<(?P<address>(?:https?://|mailto:)[^<>\s]{1,2000})>"
    rf"|(?P<tag></?(?:{_TAGS})(?:\s[^<>=]{{0,200}}=[^<>]{{0,2000}})?\s*/?>|<!--(?:[^-]|-(?!->)){{0,1000}}+-->)"
    r"|(?P<run>\*+|_+|~~|(?<!=)==(?!=))"
    r"|(?P<paragraph>\n[ \t]*\n))"
)


def plain_text(markdown: str) -> str:
    """Return the words of a Markdown text, line by line, without its marks.

    Where links lead is left out, unless there is nothing else.
    """
    lines = list(_lines(markdown[:MOST_CHARS].split("\n")))
    targets = {
        at: found
        for at, (is_code, line) in enumerate(lines)
        if not is_code and "]:" in line and (found := _DEFINITION.match(line))
    }
    labels = frozenset(_label(found["label"]) for found in targets.values())
    text = _plain([line for at, line in enumerate(lines) if at not in targets], labels)
    return text or "\n".join(f"{found['label']}: {found['address']}" for found in targets.values())


def _plain(lines: list[tuple[bool, str]], labels: frozenset[str]) -> str:
    parts = []
    for is_code, group in groupby(lines, key=lambda line: line[0]):
        text = "\n".join(line for _, line in group)
        parts.append(text if is_code else _BLANK_LINES.sub("\n\n", _Inline(text, labels).plain()))
    return "\n".join(parts).strip()


def _label(text: str) -> str:
    return " ".join(text.casefold().split())


def _lines(lines: list[str]) -> Iterator[tuple[bool, str]]:
    """Yield whether each line is code, and the line without what makes it a heading, an item, a quote or a row."""
    is_code = False
    for line in lines:
        if _FENCE.match(line):
            is_code = not is_code
        elif is_code:
            yield True, line
        elif not (_RULE.match(line) or _TABLE_RULE.match(line)):
            yield False, _without_line_marks(line)


def _without_line_marks(line: str) -> str:
    start = _LINE_START.match(line)
    text = line[start.end() :] if start else line
    if start and "#" in start[0]:
        return _HEADING_END.sub("", text)
    if text.startswith("["):
        return _ALERT.sub(lambda found: found[1].capitalize(), _FOOTNOTE_START.sub("", text, count=1))
    if text.startswith("|"):
        return " · ".join(cell.strip() for cell in _CELL_BREAK.split(text.rstrip().strip("|")) if cell.strip())
    return text


class _Inline:
    """Takes the marks out of running text in one pass; what opens nothing stays as it is."""

    def __init__(self, text: str, labels: frozenset[str]) -> None:
        """`labels`: names of links that are explained elsewhere; in brackets they are links on their own."""
        self._text = text
        self._labels = labels
        self._parts: list[str] = []
        self._brackets: list[int] = []
        """Parts that are opening brackets."""
        self._runs: dict[str, int] = {}
        """Parts that may open emphasis."""

    def plain(self) -> str:
        """Return the text without marks."""
        end = 0
        for mark in _INLINE.finditer(self._text):
            self._parts += (self._text[end : mark.start()], self._replaced(mark))
            end = mark.end()
        return "".join([*self._parts, self._text[end:]])

    def _replaced(self, mark: re.Match[str]) -> str:
        kind = mark.lastgroup or ""
        if kind in ("escaped", "code", "address"):
            return mark[kind]
        if kind == "run":
            return self._run(mark)
        if kind == "open":
            self._brackets.append(len(self._parts) + 1)
        elif kind in ("link", "reference"):
            return self._link(mark[0], is_cut=kind == "link")
        elif kind == "close" and self._brackets:
            return self._closed(self._brackets.pop())
        elif kind == "footnote":
            return ""
        elif kind == "entity":
            # Of an unknown name `unescape` would take a known beginning: `&copyright;` as `©right;`.
            return unescape(mark[0]) if mark[0][1] == "#" else html5.get(mark[0][1:], mark[0])
        elif kind == "tag":
            return " " if mark[0].startswith("<br") else ""
        elif kind == "paragraph":
            self._runs.clear()
        return mark[0]

    def _closed(self, opening: int) -> str:
        inside = self._parts[opening + 1 : opening + 1 + _MOST_LABEL_PARTS]
        is_whole = opening + 1 + len(inside) == len(self._parts)
        if self._labels and is_whole and _label("".join(inside)) in self._labels:
            self._parts[opening] = ""
            return ""
        return "]"

    def _link(self, target: str, *, is_cut: bool) -> str:
        """Drop the brackets and the target; a link whose beginning is in another chunk has no opening bracket."""
        if self._brackets:
            self._parts[self._brackets.pop()] = ""
            return ""
        return "" if is_cut else target

    def _run(self, mark: re.Match[str]) -> str:
        """Drop both ends of emphasis; snake_case, 2*3 and a star with spaces around stay."""
        run, (start, end) = mark[0], mark.span()
        before, after = self._text[start - 1 : start], self._text[end : end + 1]
        is_inside = before.isalnum() and after.isalnum()
        if is_inside and (run[0] in "_=" or before.isdigit() or after.isdigit()):
            return run
        if before and not before.isspace() and run in self._runs:
            self._parts[self._runs.pop(run)] = ""
            return ""
        if after and not after.isspace():
            self._runs[run] = len(self._parts) + 1
        return run
