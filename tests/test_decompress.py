"""Compressed bodies: whole, or known not to be."""

from __future__ import annotations

import gzip
import random
import zlib

import brotli
import pytest

from core.errors import CutShort, Damaged
from core.pages.documents.decompress import MAX_MEMBERS, PIECE_BYTES, decompressor_for, gunzip

PLAIN = " ".join(random.Random(7).choices(["rain", "river", "freshet", "bank", "flood", "thaw"], k=400)).encode()


def raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(body) + packer.flush()


def stored_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(0, zlib.DEFLATED, -15)
    return packer.compress(body) + packer.flush()


PACKED = {
    "gzip": ("gzip", gzip.compress(PLAIN)),
    "x-gzip": ("x-gzip", gzip.compress(PLAIN)),
    "named gzip": ("GZIP", b"\x1f\x8b\x08\x08\0\0\0\0\x02\xffpage.html\0" + gzip.compress(PLAIN, mtime=0)[10:]),
    "zlib": ("deflate", zlib.compress(PLAIN)),
    "raw deflate": ("deflate", raw_deflate(PLAIN)),
    "stored deflate": ("deflate", stored_deflate(PLAIN)),
    "brotli": ("br", brotli.compress(PLAIN)),
}


def fed(coding: str, body: bytes, step: int) -> tuple[bytes, bool]:
    """What comes out, and whether it is all."""
    unpacking = decompressor_for(coding)
    assert unpacking is not None
    content = b"".join(
        piece for start in range(0, len(body), step) for piece in unpacking.feed(body[start : start + step])
    )
    return content, unpacking.is_complete


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
@pytest.mark.parametrize("name", PACKED)
def test_the_whole_body_comes_back(name: str, step: int) -> None:
    """In whatever portions it arrives."""
    coding, body = PACKED[name]

    assert fed(coding, body, step) == (PLAIN, True)


@pytest.mark.parametrize("step", [1, 1 << 20])
@pytest.mark.parametrize("name", PACKED)
def test_every_prefix_is_known_to_be_cut_short(name: str, step: int, full: bool) -> None:
    """But for the empty one: servers announce a coding and send nothing."""
    coding, body = PACKED[name]

    assert fed(coding, b"", step) == (b"", True)
    lengths = {*range(1, len(body), 1 if full else 7), *range(1, 30), *range(len(body) - 30, len(body))} - {len(body)}
    complete = [length for length in sorted(lengths) if length > 0 and fed(coding, body[:length], step)[1]]
    assert complete == []


@pytest.mark.parametrize("step", [1, 5, 1 << 20])
def test_gzip_in_several_members(step: int) -> None:
    """All members are read; a cut anywhere but between two of them is seen."""
    first, second = gzip.compress(PLAIN[:500]), gzip.compress(PLAIN[500:])
    both = first + second

    assert fed("gzip", both, step) == (PLAIN, True)
    complete = [length for length in range(1, len(both)) if fed("gzip", both[:length], step)[1]]
    assert complete == [len(first)]


@pytest.mark.parametrize("step", [1, 5, 1 << 20])
@pytest.mark.parametrize("rest", [b"\x00" * 100, b"\r\n", b"<!-- cached -->", b"\x1f\x8b\x00junk", b"\x1fjunk"])
def test_what_follows_the_last_member_is_ignored(rest: bytes, step: int) -> None:
    """As browsers do."""
    assert fed("gzip", gzip.compress(PLAIN) + rest, step) == (PLAIN, True)


@pytest.mark.parametrize("name", ["zlib", "raw deflate"])
def test_what_follows_a_deflate_stream_is_ignored(name: str) -> None:
    """In the same portion or in a later one."""
    coding, body = PACKED[name]

    assert fed(coding, body + b"more", 1 << 20) == (PLAIN, True)
    assert fed(coding, body + b"more", 3) == (PLAIN, True)


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", b"<html>not packed at all</html>"),
        ("gzip", b"\x1f\x8b"[::-1] + b"abc"),
        ("deflate", b"\xff\xff\xff\xff"),
        ("br", b"<html>not packed at all</html>"),
    ],
)
def test_what_is_not_packed_as_it_says(coding: str, body: bytes) -> None:
    """An error, as in curl and in browsers."""
    with pytest.raises(Damaged):
        fed(coding, body, 1 << 20)


@pytest.mark.parametrize("step", [1, 3, 1 << 20])
def test_gzip_with_flags_of_no_meaning_is_damaged(step: int) -> None:
    """In whatever portions its header arrives."""
    body = bytearray(PACKED["gzip"][1])
    body[3] = 0x20

    with pytest.raises(CutShort):
        fed("gzip", bytes(body), step)


def test_damage_in_the_middle_is_like_a_cut() -> None:
    """A body that began well, and whose rest is something else: another try may bring all of it."""
    packed = gzip.compress(PLAIN)
    flipped = bytearray(gzip.compress(PLAIN))
    flipped[-5] ^= 0xFF  # of the checksum

    for body in (packed[: len(packed) // 2] + b"HTTP/1.1 502 Bad Gateway" * 90, bytes(flipped)):
        with pytest.raises(CutShort):
            fed("gzip", body, 1 << 20)


@pytest.mark.parametrize("coding", ["", "identity", "none", "utf-8", "aws-chunked"])
def test_names_of_no_packing_are_ignored(coding: str) -> None:
    """Servers write many things there."""
    assert decompressor_for(coding) is None


@pytest.mark.parametrize("coding", ["zstd", "compress", "gzip, gzip", "gzip, br", "identity, zstd"])
def test_packings_that_nobody_asked_for_are_refused(coding: str) -> None:
    """Better no text than their bytes taken for one."""
    with pytest.raises(Damaged):
        decompressor_for(coding)


@pytest.mark.parametrize("pad", range(-3, 4))
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br"])
def test_output_around_the_size_of_a_piece(coding: str, pad: int) -> None:
    """No byte is left behind in the decompressor when a piece is exactly full."""
    plain = b"a" * (3 * PIECE_BYTES + pad)
    packed = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress}[coding](plain)

    assert fed(coding, packed, 1 << 20) == (plain, True)


def test_pieces_are_small() -> None:
    """A bomb is met piece by piece, so that its reader can stop."""
    unpacking = decompressor_for("gzip")
    assert unpacking is not None

    pieces = unpacking.feed(gzip.compress(bytes(20_000_000)))

    assert max(len(piece) for piece in pieces) <= PIECE_BYTES


def test_members_without_end_are_refused() -> None:
    """Empty members cost time and give nothing."""
    with pytest.raises(Damaged):
        fed("gzip", gzip.compress(b"") * (MAX_MEMBERS + 1), 1 << 20)


def test_a_gzip_file() -> None:
    """Whole, cut anywhere, too large."""
    packed = gzip.compress(PLAIN)

    assert gunzip(packed, 1 << 20) == PLAIN
    assert len(gunzip(packed, 100)) == 101
    for length in range(2, len(packed)):
        with pytest.raises(CutShort):
            gunzip(packed[:length], 1 << 20)
