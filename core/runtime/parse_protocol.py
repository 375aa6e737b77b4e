"""The messages between the pool, the fork server and the children: length-prefixed msgpack, one reply per call.

Typed on both ends and never pickle, so a child that a hostile body took over can lie to us but not run code in us.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any

import msgspec

HEADER = struct.Struct(">I")
MAX_REPLY_BYTES = 64 * 1024 * 1024
"""Larger than any honest answer; keeps a lying child from filling our memory."""
PID = struct.Struct(">I")
"""What a child says when it is ready."""
EXIT_STATUS = struct.Struct(">i")
"""How a child ended, as the fork server tells it."""
REQUEST_BYTES = 64
"""What the fork server is asked, filled up with blanks: the name of a task, and with it the two sockets of the child
that is to be forked for it; or the name of a module that is to be loaded first, and no sockets."""
EXIT_MEMORY = 86
"""Exit status of a child that had no memory left, not even for an answer."""

_encoder = msgspec.msgpack.Encoder()


class ReplyStatus(IntEnum):
    """How a task ended in the child."""

    DONE = 0
    REFUSED = 1
    """The task said, on purpose, that this input is not for it."""
    RAISED = 2
    MEMORY = 3
    CUT_SHORT = 4
    """The input breaks off before its end; the whole of it may be readable."""
    NOT_LOADED = 5
    """The task needs the module that `text` names: load it, and ask another child."""


class ChildOptions(msgspec.Struct, frozen=True):
    """The options of the fork server and its children, on its command line as JSON."""

    registry: str
    parent_pid: int
    cpu_seconds: float
    memory_bytes: int
    max_tasks: int


class Call(msgspec.Struct, frozen=True, array_like=True):
    """One task for the child; the request stays undecoded until its type is known."""

    task: str
    request: msgspec.Raw


class Reply(msgspec.Struct, frozen=True, array_like=True):
    """The child's answer."""

    status: ReplyStatus
    retiring: bool
    """True: the child exits now; take another one next time."""
    text: str
    result: msgspec.Raw


call_decoder = msgspec.msgpack.Decoder(Call)
reply_decoder = msgspec.msgpack.Decoder(Reply)


def call_frame(task: str, request: object) -> bytearray:
    """Return the bytes of a `Call`, header included."""
    return _frame((task, request))


def reply_frame(status: ReplyStatus, retiring: bool, text: str = "", result: object = None) -> bytearray:
    """Return the bytes of a `Reply`, header included."""
    return _frame((status, retiring, text, result))


def _frame(message: tuple[Any, ...]) -> bytearray:
    # A plain tuple has the layout of the array-like structs, and a body of megabytes is copied only once.
    buffer = bytearray(HEADER.size)
    _encoder.encode_into(message, buffer, HEADER.size)
    HEADER.pack_into(buffer, 0, len(buffer) - HEADER.size)
    return buffer
