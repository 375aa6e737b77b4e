"""Put a Document together from what a page says about itself and the blocks of its text."""

from __future__ import annotations

from core.models import Document, Image, TextSource
from core.pages.blocks import TextBlock, blocks_to_markdown, blocks_to_text, limit_blocks
from core.pages.boilerplate import choose_abstract, remove_boilerplate
from core.pages.language import page_language
from core.pages.metadata import PageMetadata
from core.pages.text_cleaning import content_hash, strip_unstorable
from core.pages.title import page_author, page_description, page_title


def build_document(
    head: PageMetadata,
    found: list[TextBlock],
    source: TextSource,
    image: str = "",
    published_ts: float | None = None,
    images: tuple[Image, ...] = (),
    links: tuple[str, ...] = (),
) -> Document:
    """Everything but the length of the body and the extractor's version, which the caller knows."""
    title = page_title(head)
    found = limit_blocks(remove_boilerplate(found, title))
    text = strip_unstorable(blocks_to_text(found))
    markdown = blocks_to_markdown(found)
    return Document(
        title=title,
        markdown=text if markdown == text else strip_unstorable(markdown),
        clean_text=text,
        abstract=strip_unstorable(choose_abstract(found, page_description(head), text)),
        image=image,
        author=page_author(head),
        published_ts=published_ts,
        language=page_language(head, text),
        canonical_url=_canonical(head),
        is_amp=head.is_amp,
        text_len=len(text),
        content_hash=content_hash(text),
        source=source,
        images=images,
        links=links,
    )


def _canonical(head: PageMetadata) -> str:
    """The page's own word on its address; `og:url` is the weaker one, as sites put their front page there."""
    stated = (*head.links.get("canonical", ()), *head.metas.get("og:url", ()))
    return next((url for url in map(head.absolute, stated) if url), "")
