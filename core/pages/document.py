"""Put a Document together from what a page says about itself and the blocks of its text."""

from __future__ import annotations

from core.models import Document, Image, TextSource
from core.pages import blocks as page_blocks
from core.pages import language as page_language
from core.pages import title as page_title
from core.pages import trim as page_trim
from core.pages.blocks import Block
from core.pages.head import Head
from core.pages.text import content_hash, storable


def assemble(
    head: Head,
    found: list[Block],
    source: TextSource,
    image: str = "",
    published_ts: float | None = None,
    images: tuple[Image, ...] = (),
    links: tuple[str, ...] = (),
) -> Document:
    """Everything but the length of the body and the extractor's version, which the caller knows."""
    title = page_title.title(head)
    found = page_blocks.bounded(page_trim.trimmed(found, title))
    text = storable(page_blocks.plain(found))
    markdown = page_blocks.markdown(found)
    return Document(
        title=title,
        markdown=text if markdown == text else storable(markdown),
        clean_text=text,
        abstract=storable(page_trim.abstract(found, page_title.description(head), text)),
        image=image,
        author=page_title.author(head),
        published_ts=published_ts,
        language=page_language.language(head, text),
        canonical_url=_canonical(head),
        is_amp=head.is_amp,
        text_len=len(text),
        content_hash=content_hash(text),
        source=source,
        images=images,
        links=links,
    )


def _canonical(head: Head) -> str:
    """The page's own word on its address; `og:url` is the weaker one, as sites put their front page there."""
    stated = (*head.links.get("canonical", ()), *head.metas.get("og:url", ()))
    return next((url for url in map(head.absolute, stated) if url), "")
