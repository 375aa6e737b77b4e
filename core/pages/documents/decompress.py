"""Decompress bodies piece by piece, and know whether the end was reached.

A decompressor silently hands out what it has of a body that breaks off; storing that would overwrite a whole text with
a part of it. So every decompressor says at the end whether the body was complete (`is_complete`; an empty body is).
`feed` yields pieces of at most `PIECE_BYTES`.
"""

from __future__ import annotations

from collections.abc import Iterator

from isal import isal_zlib

from core.errors import CutShort, Damaged

PIECE_BYTES = 65_536
MAX_MEMBERS = 1_000
"""Of one gzip body. Block-wise compressors make one per 64 kB; millions of empty ones are an attack."""
GZIP_MAGIC = b"\x1f\x8b"
_MEMBER = b"\x1f\x8b\x08"
KNOWN_GZIP_FLAGS = b"\x1f"
"""A fourth byte above has flags of no meaning, which isal passes over."""
_GZIP, _ZLIB, _RAW = 31, 15, -15
_DAMAGED = "The compressed body is damaged."
_MISLABELLED = "The body is not compressed in the way that its header says."
# Any other name is ignored, as in browsers: servers write `none`, `utf-8` and worse.
_UNREQUESTED = frozenset(("zstd", "compress", "x-compress", "dcb", "dcz"))


def decompressor_for(content_encoding: str) -> Decompressor | None:
    """Return a decompressor for this `Content-Encoding`; None if none is needed, `Damaged` if it is not supported."""
    codings = [coding.strip().lower() for coding in content_encoding.split(",")]
    supported = [coding for coding in codings if coding in _DECOMPRESSORS]
    if len(supported) > 1 or not _UNREQUESTED.isdisjoint(codings):
        raise Damaged("The response is compressed in a way that was not asked for.")
    return _DECOMPRESSORS[supported[0]]() if supported else None


def gunzip(body: bytes, max_bytes: int) -> bytes:
    """Return the content of a gzip file, at most one byte more than `max_bytes`.

    `CutShort` if its end is missing, `Damaged` if it is damaged before.
    """
    decompressor, content = _Gzip(), bytearray()
    try:
        for piece in decompressor.feed(body):
            content += piece
            if len(content) > max_bytes:
                return bytes(content[: max_bytes + 1])
    except CutShort as error:
        raise Damaged(str(error)) from error
    if not decompressor.is_complete:
        raise CutShort("The gzip file breaks off before its end.")
    return bytes(content)


class _Gzip:
    """gzip members one after the other. Other data after the last one is ignored, as in browsers."""

    def __init__(self) -> None:
        self._stream = isal_zlib.decompressobj(_GZIP)
        self._members = 0
        self._between = b""
        """The first bytes after a member, while they are too few to tell whether another begins."""
        self._is_finished = False

    @property
    def is_complete(self) -> bool:
        return self._is_finished or (not self._between and (self._stream.eof or not self._members))

    def feed(self, data: bytes) -> Iterator[bytes]:
        data = self._between + data
        self._between = b""
        while data and not self._is_finished:
            if self._stream.eof or not self._members:
                if not self._begins(data):
                    return
                self._members += 1
                if self._members > MAX_MEMBERS:
                    raise Damaged("The response is gzip in too many parts.")
                self._stream = isal_zlib.decompressobj(_GZIP)
            yield from _pieces(self._stream, data, CutShort(_DAMAGED))
            data = self._stream.unused_data

    def _begins(self, data: bytes) -> bool:
        """Return whether a member begins here. Data that is too short to tell is kept for the next call."""
        if data.startswith(_MEMBER) and len(data) > len(_MEMBER):
            if data[3:4] > KNOWN_GZIP_FLAGS:
                raise CutShort(_DAMAGED)
            return True
        if _MEMBER.startswith(data):
            self._between = data
        elif not self._members:
            raise Damaged(_MISLABELLED)
        else:
            self._is_finished = True
        return False


class _Deflate:
    """zlib, or the raw stream that some servers send under the same name."""

    def __init__(self) -> None:
        self._start = b""
        self._is_raw = False
        self._stream: isal_zlib.Decompress | None = None

    @property
    def is_complete(self) -> bool:
        return self._stream.eof if self._stream else not self._start

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._stream is None:
            self._start += data
            if len(self._start) < 2:
                return
            data = self._start
            # RFC 1950: zlib is deflate with a checksum over the first two bytes.
            self._is_raw = data[0] & 0x0F != 8 or (data[0] << 8 | data[1]) % 31 != 0
            self._stream = isal_zlib.decompressobj(_RAW if self._is_raw else _ZLIB)
        # The raw stream has no signature: data that it cannot read may be anything.
        yield from _pieces(self._stream, data, Damaged(_MISLABELLED) if self._is_raw else CutShort(_DAMAGED))


class _Brotli:
    def __init__(self) -> None:
        import brotli

        self._stream = brotli.Decompressor()
        self._error = brotli.error
        self._has_data = False
        self._has_output = False

    @property
    def is_complete(self) -> bool:
        return not self._has_data or bool(self._stream.is_finished())

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._has_data = self._has_data or bool(data)
        while not self._stream.is_finished():
            try:
                piece = self._stream.process(data, output_buffer_limit=PIECE_BYTES)
            except self._error as error:
                raise (CutShort(_DAMAGED) if self._has_output else Damaged(_MISLABELLED)) from error
            data = b""
            if piece:
                self._has_output = True
                yield piece
            elif self._stream.can_accept_more_data():
                return


def _pieces(stream: isal_zlib.Decompress, data: bytes, error: Damaged | CutShort) -> Iterator[bytes]:
    """Yield all that this data gives, up to the end of the stream; raise `error` where it is damaged."""
    while not stream.eof:
        try:
            piece = stream.decompress(data, PIECE_BYTES)
        except isal_zlib.error as damage:  # type: ignore[misc] # the stubs call it an object
            raise error from damage
        data = stream.unconsumed_tail
        if piece:
            yield piece
        # A full piece may leave output behind although all input is consumed.
        if not data and len(piece) < PIECE_BYTES:
            return


Decompressor = _Gzip | _Deflate | _Brotli
_DECOMPRESSORS: dict[str, type[Decompressor]] = {"gzip": _Gzip, "x-gzip": _Gzip, "deflate": _Deflate, "br": _Brotli}
