"""Build the commands that write the records of a page's images.

An image is a record of its own, a child of its page. It has no text and is never fetched or embedded: its alt text and
caption are found in its page. So its status is Indexed from the beginning.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from core import ids
from core.keys import Keys
from core.models import Image
from core.registry.blank_record import blank_fields, own_fields
from core.registry.record import Item, Status
from core.store.commands import Command, flat
from core.urls.normalise import normalise_url

Records = Mapping[str, dict[str, str]]
"""By the id of each image the fields that are its own."""


def image_records(page: Item, images: Sequence[Image], strategy: str) -> Records:
    """Return the fields in which the images of a page differ; an image without a usable URL has no record."""
    records: dict[str, dict[str, str]] = {}
    for image in images:
        try:
            normalised = normalise_url(image.url)
        except ValueError:
            continue
        # The same picture on another page is another child.
        name = ids.item_id("url", f"{normalised}#{page.id}")
        records[name] = own_fields(normalised, image.url, strategy=strategy, item_id=name) | {
            "altText": image.alt,
            "width": str(image.width or ""),
            "height": str(image.height or ""),
            "mimeType": image.mime_type,
        }
    return records


def write(keys: Keys, page: Item, records: Records, now: float, *, is_first: bool) -> list[Command]:
    """Commands that write the records and their indexes; `is_first`: none of them is there yet."""
    if not records:
        return []
    shared = blank_fields(now) | {
        "status": str(Status.INDEXED),
        "parentPageId": page.id,
        "parentPageUrl": page.fetch_url,
        "source": page.fetch_url,
        "nextCrawlAt": "",
    }
    commands = _first(keys, records, shared) if is_first else _again(keys, records, shared)
    by_partition: defaultdict[str, list[str]] = defaultdict(list)
    for name, own in records.items():
        by_partition[own["PartitionKey"]].append(name)
    return [
        *commands,
        *(("SADD", keys.partition(partition), *names) for partition, names in by_partition.items()),
        ("SADD", keys.status(str(Status.INDEXED)), *records),
        ("SADD", keys.images(page.id), *records),
    ]


def _first(keys: Keys, records: Records, shared: dict[str, str]) -> list[Command]:
    """One whole record, of which the server makes the others: a page has five images, a record sixty fields.

    That is a third of the words of a commit, for us and for the server.
    """
    (first, own), *others = records.items()
    original = keys.item(first)
    commands: list[Command] = [("HSET", original, *flat(shared | own))]
    for name, own in others:
        commands += [("COPY", original, keys.item(name), "REPLACE"), ("HSET", keys.item(name), *flat(own))]
    return commands


def _again(keys: Keys, records: Records, shared: dict[str, str]) -> list[Command]:
    """Each record in full, with the time at which it was first seen."""
    shared = dict(shared)
    first_seen = shared.pop("firstSeen")
    commands: list[Command] = []
    for name, own in records.items():
        commands += [
            ("HSET", keys.item(name), *flat(shared | own)),
            ("HSETNX", keys.item(name), "firstSeen", first_seen),
        ]
    return commands
