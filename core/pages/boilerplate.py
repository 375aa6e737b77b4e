"""Remove blocks that are in an article and are not part of it."""

from __future__ import annotations

import re

from core.pages.text_blocks import TextBlock, TextBlockKind
from core.pages.text_cleaning import bare_letters

_MAX_PROMOTION_CHARS = 200
# Pointers to other stories and calls to follow, as editors put them between paragraphs. One line per language, and only
# openings that a sentence of the story itself does not have.
_PROMOTION = re.compile(
    r"""[\[(►▶→»*•\s]*(?:
      (?:read\ (?:also|more|next)|related(?:\ (?:stories|articles?|content|posts?))?|see\ also|also\ read|watch)\s*[:|]
      |follow\ [\w@ ]{1,40}\ on\ (?:twitter|facebook|instagram|youtube|linkedin|telegram|tiktok|social|x\b)
      |(?:sign\ up\ for\ (?:our|the)|subscribe\ to\ our|share\ this\ (?:article|story|post|page))\b
      |(?:lesen\ sie\ (?:auch|hier|dazu)|auch\ interessant|mehr\ zum\ thema|hier\ geht\ es\ zu)\b
      |das\ könnte\ (?:sie|dich)\ auch\b
      |(?:lire(?:\ aussi|\ également)?|à\ lire(?:\ aussi)?|voir\ aussi)\s*[:|]
      |(?:mira|además|vea|lea)\s*:|(?:lea|lee|vea)\ también\b|(?:le|te)\ puede\ interesar\b|s[ií]guenos\ en\b
      |(?:leggi\ anche|guarda\ anche|leia\ (?:também|mais)|veja\ (?:também|mais)|saiba\ mais)\b
      |(?:lees\ ook|læs\ også|les\ også|läs\ (?:också|även)|czytaj\ (?:też|także|również)|zobacz\ (?:też|także))\b
      |(?:читайте\ также|смотрите\ также)\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_BYLINE = re.compile(
    r"(?:by|von|par|por|di|published|posted|updated|veröffentlicht|photo|image|foto|credit|copyright|©)\b"
    r"[^.!?]{0,120}$",
    re.IGNORECASE,
)
_ONE_LINERS = {TextBlockKind.HEADING, TextBlockKind.PARAGRAPH, TextBlockKind.LINE}


def is_promotion(text: str) -> bool:
    """Return whether the text opens like a pointer to another story or a call to follow."""
    return _PROMOTION.match(text) is not None


def is_byline(text: str) -> bool:
    """Return whether this says who wrote or photographed something, or when."""
    return _BYLINE.match(text) is not None


def remove_boilerplate(blocks: list[TextBlock], title: str) -> list[TextBlock]:
    """Remove the repeated title, pointers to other stories, and headings with nothing below them."""
    kept = [block for block in blocks if not (_is_short(block) and _PROMOTION.match(block.text))]
    if kept and title and kept[0].kind in _ONE_LINERS and bare_letters(kept[0].text) == bare_letters(title):
        kept = kept[1:]
    while kept and kept[-1].kind is TextBlockKind.HEADING and _is_short(kept[-1]):
        kept = kept[:-1]
    return kept or blocks


def _is_short(block: TextBlock) -> bool:
    return block.kind in _ONE_LINERS and len(block.text) <= _MAX_PROMOTION_CHARS
