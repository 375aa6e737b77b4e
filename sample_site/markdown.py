"""The Markdown our articles use, as HTML: paragraphs, lists, tables, quotes, code and emphasis. No more than that."""

from __future__ import annotations

import html
import re

_NUMBERED = re.compile(r"\d+\. ")
_EMPHASIS = re.compile(r"\*(.+?)\*")


def to_html(text: str) -> str:
    """HTML of a whole text."""
    return "\n".join(_block(block) for block in blocks(text))


def blocks(text: str) -> list[str]:
    """The text cut at blank lines; a fenced piece of code stays whole, blank lines and all."""
    found: list[str] = []
    for index, part in enumerate(text.split("```\n")):
        if index % 2:
            found.append(f"```\n{part}")
        else:
            found += [block for block in part.strip().split("\n\n") if block.strip()]
    return found


def summary(text: str) -> str:
    """The first paragraph as plain text."""
    return _EMPHASIS.sub(r"\1", blocks(text)[0])


def _block(block: str) -> str:
    lines = block.split("\n")
    if block.startswith("```"):
        return f"<pre><code>{html.escape(block[4:].rstrip())}</code></pre>"
    if block.startswith("|"):
        return _table(lines)
    if block.startswith("> "):
        return "<blockquote><p>" + "<br>\n".join(_inline(line[2:]) for line in lines) + "</p></blockquote>"
    if block.startswith("- "):
        return _list("ul", [line[2:] for line in lines])
    if _NUMBERED.match(block):
        return _list("ol", [_NUMBERED.sub("", line, count=1) for line in lines])
    return f"<p>{_inline(block)}</p>"


def _inline(text: str) -> str:
    return _EMPHASIS.sub(r"<em>\1</em>", html.escape(text, quote=False))


def _list(tag: str, items: list[str]) -> str:
    return f"<{tag}>" + "".join(f"<li>{_inline(item)}</li>" for item in items) + f"</{tag}>"


def _table(lines: list[str]) -> str:
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    top = "".join(f"<th>{_inline(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{_inline(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
