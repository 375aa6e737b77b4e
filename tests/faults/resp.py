"""Just enough of the Redis protocol (RESP2 and RESP3) to know where a command or a reply ends.

Reads no socket and judges no content.
"""

from __future__ import annotations

SET_UP = frozenset({"HELLO", "AUTH", "CLIENT", "SELECT", "PING"})
"""What redis-py says by itself when it connects or looks whether a connection lives: no work of ours."""

_LINES = b"+-:_#,("
_BULKS = b"$=!"
_PAIRS = b"%|"
_LISTS = b"*~>"


class Frames:
    """Bytes in, complete frames out."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, piece: bytes) -> list[bytes]:
        """The frames that this piece completes."""
        self._buffer += piece
        frames, start = [], 0
        while (end := _end(self._buffer, start)) > 0:
            frames.append(bytes(self._buffer[start:end]))
            start = end
        del self._buffer[:start]
        return frames


def _end(buffer: bytearray, start: int) -> int:
    """Where the frame that begins at `start` ends; 0 when it is not all there."""
    line = buffer.find(b"\r\n", start)
    if line < 0:
        return 0
    kind, at = buffer[start], line + 2
    if kind in _LINES:
        return at
    count = int(buffer[start + 1 : line])
    if kind in _BULKS:
        at += max(count + 2, 0) if count >= 0 else 0
        return at if at <= len(buffer) else 0
    if kind not in _LISTS + _PAIRS:
        raise ValueError(f"not RESP: {bytes(buffer[start : start + 20])!r}")
    parts = 2 * count if kind in _PAIRS else count
    # An attribute (|) is followed by the reply it belongs to.
    for _ in range(parts + (kind == ord("|"))):
        at = _end(buffer, at)
        if not at:
            return 0
    return at


def words(frame: bytes) -> list[str]:
    """A command's words; text that is not UTF-8 is replaced."""
    pieces, at = [], frame.index(b"\r\n") + 2
    for _ in range(int(frame[1 : at - 2])):
        line = frame.index(b"\r\n", at)
        length = int(frame[at + 1 : line])
        pieces.append(frame[line + 2 : line + 2 + length].decode(errors="replace"))
        at = line + 2 + length + 2
    return pieces


def name(frame: bytes) -> str:
    """A command's name, upper case."""
    return words(frame)[0].upper()


def shown(frame: bytes) -> str:
    """A command as a person wants to see it in a failed test: name and key, a script by its key."""
    told = words(frame)
    if told[0].upper() == "EVAL":
        return " ".join(["EVAL", *told[3 : 3 + int(told[2])]])
    return " ".join([told[0].upper(), *told[1:2]])


def is_set_up(frame: bytes) -> bool:
    """Is this redis-py's own talk?"""
    return name(frame) in SET_UP


def is_push(frame: bytes) -> bool:
    """Is this something the server says unasked?"""
    return frame[:1] == b">"
