"""Render the pages: realistic HTML around a story, with the noise real pages have. Text in, text out."""

from __future__ import annotations

import hashlib
import html
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

from sample_site import markdown
from sample_site.newsroom import Story

_FOLDER = Path(__file__).parent / "templates"
_PARTS = tomllib.loads((_FOLDER / "parts.toml").read_text(encoding="utf-8"))
_TEMPLATES = {file.stem: Template(file.read_text(encoding="utf-8")) for file in _FOLDER.glob("*.html")}
MOST_READ_STORIES = 5

_SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 360" width="640" height="360">
<rect width="640" height="360" fill="hsl({hue},45%,88%)"/><circle cx="{sun}" cy="90" r="42" fill="hsl({hue},70%,70%)"/>
<path d="M0 250 Q160 {swell} 320 250 T640 250 V360 H0Z" fill="hsl({hue},40%,45%)"/></svg>
"""


def article(story: Story, base: str, most_read: Sequence[Story], charset: str = "utf-8") -> str:
    """The page of a story."""
    return _render("article", **_fields(story, base), charset=charset, most_read=_items(most_read[:MOST_READ_STORIES]))


def amp(story: Story, base: str) -> str:
    """The AMP page of a story."""
    return _render("amp", **_fields(story, base))


def consent(story: Story, base: str) -> str:
    """Shown instead of a story until the reader presses a button."""
    return _render("consent", url=base + story.article.path)


def listing(title: str, url: str, groups: Mapping[str, Sequence[Story]]) -> str:
    """Home page or section page: a list of headlines per group."""
    parts = (
        f"<section><h2>{html.escape(name)}</h2><ul>{_items(stories)}</ul></section>" for name, stories in groups.items()
    )
    return _render("listing", title=html.escape(title), url=html.escape(url), listing="\n".join(parts))


def drawing(slug: str) -> str:
    """An SVG that is always the same for a slug."""
    digest = hashlib.sha256(slug.encode()).digest()
    return _SVG.format(hue=digest[0] * 360 // 256, sun=80 + digest[1] * 2, swell=190 + digest[2] % 100)


def image_path(story: Story) -> str:
    """Where the site serves a story's picture."""
    return f"/images/{story.article.slug}.svg"


def _render(template: str, **fields: str) -> str:
    return _TEMPLATES[template].substitute(_PARTS, **fields)


def _fields(story: Story, base: str) -> dict[str, str]:
    item = story.article
    plain = {
        "title": item.title,
        "author": item.author,
        "summary": markdown.summary(item.body),
        "keywords": ", ".join(item.tags),
        "language": item.language,
        "slug": item.slug,
        "section": item.section,
        "section_title": item.section.capitalize(),
        "url": base + item.path,
        "image": base + image_path(story),
        "published": story.published.isoformat(timespec="seconds"),
        "updated": story.updated.isoformat(timespec="seconds"),
        "published_words": f"{story.published:%d %B %Y, %H:%M}",
    }
    escaped = {name: html.escape(value) for name, value in plain.items()}
    tags = " ".join(f'<a href="/section/{item.section}">{html.escape(tag)}</a>' for tag in item.tags)
    return {**escaped, "tag_links": tags, "body": markdown.to_html(item.body), "json_ld": _json_ld(story, plain)}


def _json_ld(story: Story, plain: dict[str, str]) -> str:
    data = {
        "@context": "https://schema.org",
        "@type": "NewsArticle",
        "headline": plain["title"],
        "description": plain["summary"],
        "datePublished": plain["published"],
        "dateModified": plain["updated"],
        "inLanguage": plain["language"],
        "image": [plain["image"]],
        "mainEntityOfPage": plain["url"],
        "keywords": list(story.article.tags),
        "author": {"@type": "Person", "name": plain["author"]},
        "publisher": {"@type": "NewsMediaOrganization", "name": "The Freshet Gazette"},
    }
    return json.dumps(data, ensure_ascii=True).replace("</", "<\\/")  # no way out of the <script>


def _items(stories: Sequence[Story]) -> str:
    return "\n".join(
        f'<li><a href="{story.article.path}">{html.escape(story.article.title)}</a></li>' for story in stories
    )
