"""Read the articles: one Markdown file each, TOML between `+++` lines above the text. Section and slug are the path."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "articles"
SECTIONS = ("news", "business", "culture", "sports")


@dataclass(frozen=True, slots=True)
class Article:
    """What a reporter hands in. Dates are relative, so that the paper is never old."""

    section: str
    slug: str
    title: str
    author: str
    body: str
    """Markdown, the few forms that `markdown.to_html` knows."""
    tags: tuple[str, ...] = ()
    hours_ago: float = 0.0
    """Age when the server starts."""
    held_back: bool = False
    """True: not published at the start, but by a tick."""
    language: str = "en"
    same_text_as: str = ""
    """Slug of the article that this one repeats word for word under another address."""

    @property
    def path(self) -> str:
        """Where the site serves it."""
        return f"/{self.section}/{self.slug}"


@cache
def load() -> tuple[Article, ...]:
    """Every article, ordered by section and slug."""
    found = {file.stem: _read(file) for file in sorted(FOLDER.glob("*/*.md"))}
    return tuple(
        replace(article, body=found[article.same_text_as].body) if article.same_text_as else article
        for article in found.values()
    )


def _read(file: Path) -> Article:
    _, head, body = file.read_text(encoding="utf-8").split("+++\n", 2)
    fields = tomllib.loads(head)
    tags = tuple(fields.pop("tags", ()))
    return Article(section=file.parent.name, slug=file.stem, body=body.strip(), tags=tags, **fields)
