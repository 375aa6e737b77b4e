"""Bodies that were fetched as they came, and unpacked where they are read."""

from __future__ import annotations

import gzip
import zlib

import brotli
import pytest

from core.pages.documents.unpack import NOT_PACKED_SO, TOO_LARGE, TRUNCATED, unpack

TEXT = b"The warden of the lower lock said the water had come up. " * 400
LIMIT = 1_000_000
PACKED = {"gzip": gzip.compress(TEXT), "deflate": zlib.compress(TEXT), "br": brotli.compress(TEXT)}


@pytest.mark.parametrize("packing", PACKED)
def test_whole_body(packing: str) -> None:
    """Every coding that we ask for comes back byte for byte."""
    assert unpack(PACKED[packing], packing, LIMIT) == TEXT


def test_body_of_exactly_the_limit() -> None:
    """The limit itself is allowed."""
    assert unpack(PACKED["gzip"], "gzip", len(TEXT)) == TEXT


def test_gzip_in_parts_and_with_other_data_behind() -> None:
    """Members follow one another; what follows the last one is ignored, as in browsers."""
    assert unpack(gzip.compress(TEXT) + gzip.compress(b"more") + b"\0\0\0", "gzip", LIMIT) == TEXT + b"more"


def test_gzip_with_flags_of_no_meaning() -> None:
    """A header that says what no version of gzip knows is damaged."""
    body = bytearray(PACKED["gzip"])
    body[3] = 0x20

    assert unpack(bytes(body), "gzip", LIMIT) == TRUNCATED


@pytest.mark.parametrize("packing", PACKED)
def test_bomb(packing: str) -> None:
    """A small body that is large when plain is refused, whatever packs it."""
    bomb = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress}[packing](bytes(20_000_000))
    assert unpack(bomb, packing, LIMIT) == TOO_LARGE


@pytest.mark.parametrize("packing", PACKED)
def test_half_a_body(packing: str) -> None:
    """Half a body is no body: another try may bring all of it."""
    assert unpack(PACKED[packing][: len(PACKED[packing]) // 2], packing, LIMIT) == TRUNCATED


def test_damaged_within() -> None:
    """A wrong checksum is a body that broke on its way."""
    broken = bytearray(PACKED["gzip"])
    broken[-6] ^= 1
    assert unpack(bytes(broken), "gzip", LIMIT) == TRUNCATED


def test_header_that_lies() -> None:
    """Plain text under a gzip header is not what it says."""
    assert unpack(TEXT, "gzip", LIMIT) == NOT_PACKED_SO
