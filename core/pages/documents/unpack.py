"""Unpack a body that was fetched as it came, within the limit on its plain length, or say what is wrong with it."""

from __future__ import annotations

from isal import isal_zlib

from core.errors import CutShort, Damaged, FailCode, FailDetail
from core.models import Failed
from core.pages.documents.decompress import KNOWN_GZIP_FLAGS, decompressor_for

TOO_LARGE = Failed(FailCode.HTTP, FailDetail.TOO_LARGE, "The answer is too large.")
TRUNCATED = Failed(FailCode.HTTP, FailDetail.TRUNCATED, "The compressed answer broke off before its end.")
NOT_PACKED_SO = Failed(FailCode.HTTP, FailDetail.PROTOCOL, "The answer is not compressed the way it says.")
_GZIP = 31


def unpack(body: bytes, packing: str, max_bytes: int) -> bytes | Failed:
    """Return the plain body; never holds more than the limit and one piece."""
    plain = _gunzip_at_once(body, max_bytes) if packing == "gzip" else None
    if plain is not None:
        return plain
    unpacked = bytearray()
    try:
        decompressor = decompressor_for(packing)
        for piece in decompressor.feed(body) if decompressor else (body,):
            unpacked += piece
            if len(unpacked) > max_bytes:
                return TOO_LARGE
    except CutShort:
        return TRUNCATED
    except Damaged:
        return NOT_PACKED_SO
    if decompressor and not decompressor.is_complete:
        return TRUNCATED
    return bytes(unpacked)


def _gunzip_at_once(body: bytes, max_bytes: int) -> bytes | None:
    """Return the content of one whole gzip member, which nearly all pages are, in one call instead of one per 64 kB.

    None for all else: several members, a broken or false one, too much content.
    """
    if body[3:4] > KNOWN_GZIP_FLAGS:
        return None
    stream = isal_zlib.decompressobj(_GZIP)
    try:
        plain = stream.decompress(body, max_bytes)
    except isal_zlib.error:  # type: ignore[misc] # the stubs call it an object
        return None
    return plain if stream.eof and not stream.unused_data else None
