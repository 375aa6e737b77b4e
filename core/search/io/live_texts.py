"""Texts of items as search shall know them: an article's, or the document of a page that no feed lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.keys import Keys
from core.registry import field_parsing
from core.registry.record import Item
from core.store.connect import Client

FIELDS = ["title", "url", "markdown", "content_hash", "status"]


@dataclass(frozen=True, slots=True)
class Text:
    """What is to be embedded of an item."""

    title: str
    url: str
    markdown: str
    content_hash: str


class LiveTexts:
    """Reads `markdown` and what belongs to it, many in a few round trips."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def of(self, items: Sequence[Item]) -> dict[str, Text]:
        """By item id, the texts that the records' hashes belong to; not those that are not there, or hidden."""
        articles = await self._said(
            {item.id: self._keys.article(item.article_uid) for item in items if item.article_uid}
        )
        # One that has ended leaves what a site has of the same page.
        shown = {item_id: said for item_id, said in articles.items() if said[4] is not None}
        documents = await self._said({item.id: self._keys.document(item.id) for item in items if item.id not in shown})
        said, found = documents | shown, dict[str, Text]()
        for item in items:
            title, url, markdown, content_hash, status = said[item.id]
            is_hidden = item.id in shown and status != "success"
            if markdown is not None and content_hash == item.content_hash and not is_hidden:
                found[item.id] = Text(
                    field_parsing.text(title), field_parsing.text(url), field_parsing.text(markdown), content_hash
                )
        return found

    async def at(self, places: Mapping[str, str], versions: Mapping[str, str]) -> dict[str, str]:
        """By item id the Markdown in the hashes at these places, if it is of this version."""
        said = await self._said(places)
        return {item_id: field_parsing.text(row[2]) for item_id, row in said.items() if row[3] == versions[item_id]}

    async def _said(self, places: Mapping[str, str]) -> dict[str, list[str | None]]:
        pipe = self._client.pipeline(transaction=False)
        for key in places.values():
            pipe.hmget(key, FIELDS)
        return dict(zip(places, await pipe.execute() if places else [], strict=True))
