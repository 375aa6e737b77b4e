"""Turn the Markdown of a stored text into HTML that is safe in a page, even if a stranger wrote it.

Raw HTML is shown as text, links lead only to http and https and send no referrer, and pictures are named
instead of loaded.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from markupsafe import Markup, escape

from workers.web.dashboard.formats import safe_url

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.renderer import RendererHTML
    from markdown_it.token import Token

MAX_NESTING = 20
"""Deeper quotes and lists are shown as text."""
CHARS_PER_BRACKET = 10
"""A text with more brackets is no prose: it is shown as it is, since a flood of `[` takes twenty times as long."""
FIRST_CHARS = 30_000
"""Shown at once: some thirty milliseconds of work, and five times the usual article."""
MOST_CHARS = 200_000


def cut_text(markdown: str, *, whole: bool) -> tuple[str, int]:
    """Return the beginning of a text, up to the end of a paragraph, and how many characters are left out."""
    most = MOST_CHARS if whole else FIRST_CHARS
    if len(markdown) <= most:
        return markdown, 0
    end = markdown.rfind("\n\n", most // 2, most)
    end = most if end < 0 else end
    return markdown[:end], len(markdown) - end


def render_markdown(markdown: str, base_url: str) -> Markup:
    """Return safe HTML; relative links are completed by the address of the page."""
    try:
        parser = _parser()
    except ModuleNotFoundError:  # the extra `documents` is not installed
        return _plain(markdown)
    if markdown.count("[") * CHARS_PER_BRACKET > len(markdown):
        return _plain(markdown)
    # Every piece of text in it is escaped by the renderer, as `html` is off; the rules below write nothing else.
    return Markup(parser.render(markdown, {"base_url": base_url}))  # noqa: S704


def _plain(markdown: str) -> Markup:
    return Markup("").join(Markup("<p>{}</p>\n").format(part) for part in markdown.split("\n\n"))


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_NESTING}).enable(["table", "strikethrough"])
    # Which links are safe is decided below; what the parser itself turns away would be shown as Markdown.
    made.validateLink = lambda url: True  # type: ignore[method-assign]
    for name, rule in {
        "link_open": _link_open,
        "link_close": _link_close,
        "image": _image,
        "heading_open": _heading,
        "heading_close": _heading,
        "table_open": _table_open,
        "table_close": _table_close,
        "th_open": _cell_open,
        "td_open": _cell_open,
    }.items():
        made.add_render_rule(name, rule)
    return made


Env = MutableMapping[str, Any]


def _link_open(self: RendererHTML, tokens: Sequence[Token], at: int, options: Any, env: Env) -> str:
    target = str(tokens[at].attrs.get("href", ""))
    try:
        target = urljoin(env["base_url"], target)
    except ValueError:
        target = ""
    url = safe_url(target)
    env.setdefault("open_links", []).append(bool(url))
    return str(Markup('<a href="{}" rel="noreferrer noopener nofollow">').format(url)) if url else "<span>"


def _link_close(self: RendererHTML, tokens: Sequence[Token], at: int, options: Any, env: Env) -> str:
    return "</a>" if env["open_links"].pop() else "</span>"


def _image(self: RendererHTML, tokens: Sequence[Token], at: int, options: Any, env: Env) -> str:
    name = self.renderInlineAsText(tokens[at].children or [], options, env).strip()
    return f'<span class="picture-name">Picture{": " if name else ""}{escape(name)}</span>'


def _heading(self: RendererHTML, tokens: Sequence[Token], at: int, options: Any, env: Env) -> str:
    """The page has a title of its own: the text's headings are below it."""
    level = min(int(tokens[at].tag[1:]) + 1, 6)
    return f"<h{level}>" if tokens[at].nesting == 1 else f"</h{level}>\n"


def _table_open(self: RendererHTML, tokens: Sequence[Token], at: int, options: Any, env: Env) -> str:
    return '<div class="wide" role="region" aria-label="Table" tabindex="0"><table>\n'


def _table_close(self: RendererHTML, tokens: Sequence[Token], at: int, options: Any, env: Env) -> str:
    return "</table></div>\n"


def _cell_open(self: RendererHTML, tokens: Sequence[Token], at: int, options: Any, env: Env) -> str:
    """Without the alignment, which would be an inline style."""
    return f"<{tokens[at].tag}>"
