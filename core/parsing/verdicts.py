"""Say in one sentence why a body could not be read. Values in, `Failed` out."""

from __future__ import annotations

import signal

from core.errors import FailCode, FailDetail
from core.models import Failed
from core.parsing import wire

TEXT_CHARS = 300


def of_death(status: int | None, options: wire.ChildOptions) -> Failed:
    """From the exit status of a child that died over its task; None if it only hung up."""
    if status == -signal.SIGXCPU:
        return _failed(FailDetail.CPU, "Reading this took more CPU time than it may have.")
    if status == wire.EXIT_MEMORY:
        return _out_of_memory(options)
    if status is None:
        return _failed(FailDetail.CRASH, "The parser hung up without an answer.")
    how = f"was killed by {_signal_name(-status)}" if status < 0 else f"ended with exit status {status}"
    return _failed(FailDetail.CRASH, f"The parser {how}.")


def of_reply(reply: wire.Reply, options: wire.ChildOptions) -> Failed:
    """From an answer that is not a result."""
    if reply.status == wire.Status.REFUSED:
        return _failed(FailDetail.TYPE, reply.text)
    if reply.status == wire.Status.CUT_SHORT:
        return _failed(FailDetail.TRUNCATED, reply.text)
    if reply.status == wire.Status.MEMORY:
        return _out_of_memory(options)
    return _failed(FailDetail.CRASH, f"The parser failed: {reply.text}.")


def of_garbage() -> Failed:
    """The child answered, but not with anything we asked for."""
    return _failed(FailDetail.CRASH, "The parser answered with something that is not a result.")


def of_clock(wall_seconds: float) -> Failed:
    """The child neither answered nor died in time."""
    return _failed(FailDetail.CPU, f"Reading this took longer than {wall_seconds:g} s.")


def _out_of_memory(options: wire.ChildOptions) -> Failed:
    megabytes = options.memory_bytes // 1_000_000
    return _failed(FailDetail.MEMORY, f"Reading this needed more than {megabytes} MB of memory.")


def _signal_name(number: int) -> str:
    return next((known.name for known in signal.Signals if known == number), f"signal {number}")


def _failed(detail: FailDetail, text: str) -> Failed:
    """The text may come from a child we do not trust: short, one line, printable."""
    printable = "".join(char if char.isprintable() else " " for char in text[:TEXT_CHARS])
    return Failed(FailCode.PARSE, detail, printable)
