"""Images of pages: records of their own, children of their page, in the registry's sets like every other record.

An image has no text and is never fetched or embedded: what can be found of it, its alt text and caption, is in its
page. So there is nothing left to index, and its status is Indexed from the beginning.
"""

from __future__ import annotations

from collections.abc import Sequence

from core import ids
from core.keys import Keys
from core.models import Image
from core.registry.io.remover import Remover
from core.registry.record import Item, Status, blank_record
from core.store.commit import Command, flat
from core.store.connect import Client
from core.urls.normalise import normalise_url


class ImageStore:
    """Says what to write."""

    def __init__(self, client: Client, keys: Keys, partition_strategy: str = "host") -> None:
        self._keys = keys
        self._strategy = partition_strategy
        self._remover = Remover(client, keys)

    async def replace(self, page: Item, images: Sequence[Image], now: float) -> list[Command]:
        """Commands that make a page's children those that it shows now."""
        records = [record for image in images if (record := self._record(page, image, now))]
        names = list(dict.fromkeys(record["id"] for record in records))
        old = await self._remover.images_of(page.id)
        left = {name: partition for name, partition in old.items() if name not in names}
        commands = [command for record in records for command in self._saved(record)]
        if left:
            commands += [("SREM", self._keys.images(page.id), *left), *self._remover.images(left)]
        if names:
            commands.append(("SADD", self._keys.images(page.id), *names))
        return [*commands, ("HSET", self._keys.item(page.id), "imageCount", len(names))]

    def _saved(self, record: dict[str, str]) -> list[Command]:
        name, key = record["id"], self._keys.item(record["id"])
        fields = {field: value for field, value in record.items() if field != "firstSeen"}
        return [
            ("HSET", key, *flat(fields)),
            ("HSETNX", key, "firstSeen", record["firstSeen"]),
            ("SADD", self._keys.partition(record["PartitionKey"]), name),
            ("SADD", self._keys.status(record["status"]), name),
        ]

    def _record(self, page: Item, image: Image, now: float) -> dict[str, str] | None:
        """None for an address that has no identity. The same picture on another page is another child."""
        try:
            normalised = normalise_url(image.url)
        except ValueError:
            return None
        item_id = ids.item_id("url", f"{normalised}#{page.id}")
        return blank_record(normalised, image.url, now, strategy=self._strategy) | {
            "id": item_id,
            "RowKey": item_id.partition("_")[2],
            "status": str(Status.INDEXED),
            "parentPageId": page.id,
            "parentPageUrl": page.fetch_url,
            "source": page.fetch_url,
            "altText": image.alt,
            "width": str(image.width or ""),
            "height": str(image.height or ""),
            "mimeType": image.mime_type,
            "nextCrawlAt": "",
        }
