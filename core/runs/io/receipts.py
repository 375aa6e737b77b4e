"""Compute receipts: a digest over the result of a crawl, so that two crawls can be shown to be equal.

`<items>:<hex>`: how many items the source has, and the sum, modulo 2^256, of sha256 over `<item id> <content hash>` of
each. The order does not matter, so a million items need no sorting, and the way on which the result came does not show.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import cast

from core.keys import Keys
from core.store import scanning
from core.store.connect import Client
from core.store.packing import packed_json

AT_ONCE = 1_000
_MODULUS = 1 << 256
# KEYS[1] the first record · ARGV: JSON of the ids, beginning of records: a thousand keys as words of their own would
# cost the client ten times as much. The content hash of each; empty where there is none.
_HASHES = """
local hashes = {}
for i, id in ipairs(cjson.decode(ARGV[1])) do hashes[i] = redis.call('HGET', ARGV[2] .. id, 'contentHash') or '' end
return hashes
"""


def joined_receipts(receipts: Iterable[str]) -> str:
    """Return the receipt of several sources together; empty if one of them has none."""
    parts = [receipt.partition(":") for receipt in receipts]
    if not parts or not all(digest for _, _, digest in parts):
        return ""
    return _written(sum(int(count) for count, _, _ in parts), sum(int(digest, 16) for _, _, digest in parts))


def _written(count: int, total: int) -> str:
    return f"{count}:{total % _MODULUS:064x}"


async def receipt_of(client: Client, keys: Keys, sid: str) -> str:
    """Return the receipt of what a source has now."""
    count, total = 0, 0
    seen: set[int] = set()
    async for item_ids in scanning.zset_members(client, keys.refs(sid), AT_ONCE):
        fresh = [item_id for item_id in item_ids if hash(item_id) not in seen]  # a scan may name one twice
        seen.update(map(hash, fresh))
        if not fresh:
            continue
        words = (keys.item(fresh[0]), packed_json(fresh), keys.item(""))
        hashes = cast(list[str], await client.eval(_HASHES, 1, *words))
        for item_id, content_hash in zip(fresh, hashes, strict=True):
            line = f"{item_id} {content_hash}".encode("utf-8", "surrogateescape")
            total += int.from_bytes(hashlib.sha256(line).digest())
        count += len(fresh)
    return _written(count, total)
