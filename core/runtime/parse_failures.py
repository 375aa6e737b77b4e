"""Say in one sentence why a body could not be read. Values in, `Failed` out."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from core.errors import FailCode, FailDetail
from core.models import Failed
from core.runtime import parse_protocol

TEXT_CHARS = 300


@dataclass(frozen=True, slots=True)
class Death:
    """A child that died over its task. `status` is its exit status, None if it only hung up."""

    status: int | None

    @property
    def may_be_chance(self) -> bool:
        """Killed by a signal that is not our own CPU limit: the body need not have anything to do with it."""
        return self.status is not None and self.status < 0 and self.status != -signal.SIGXCPU


def of_death(death: Death, options: parse_protocol.ChildOptions) -> Failed:
    """What a death says about the body; of one that may be chance, the last of several."""
    status = death.status
    if status == -signal.SIGXCPU:
        return _failed(FailDetail.CPU, "Reading this took more CPU time than it may have.")
    if status == parse_protocol.EXIT_MEMORY:
        return _out_of_memory(options)
    if status is None:
        return _failed(FailDetail.CRASH, "The parser hung up without an answer.")
    if death.may_be_chance:
        return _failed(FailDetail.CRASH, f"The parser was killed again and again, at last by {_signal_name(-status)}.")
    return _failed(FailDetail.CRASH, f"The parser ended with exit status {status}.")


def of_starts(death: Death, times: int) -> str:
    """What to say of children that were all killed before they could take a task."""
    name = _signal_name(-(death.status or 0))
    return (
        f"A parse process was killed {times} times while it started, at last by {name}. "
        "Look who ends it (often a system short of memory), then start again."
    )


def of_reply(reply: parse_protocol.Reply, options: parse_protocol.ChildOptions) -> Failed:
    """From an answer that is not a result."""
    if reply.status == parse_protocol.ReplyStatus.REFUSED:
        return _failed(FailDetail.TYPE, reply.text)
    if reply.status == parse_protocol.ReplyStatus.CUT_SHORT:
        return _failed(FailDetail.TRUNCATED, reply.text)
    if reply.status == parse_protocol.ReplyStatus.MEMORY:
        return _out_of_memory(options)
    return _failed(FailDetail.CRASH, f"The parser failed: {reply.text}.")


def of_garbage() -> Failed:
    """The child answered, but not with anything we asked for."""
    return _failed(FailDetail.CRASH, "The parser answered with something that is not a result.")


def of_clock(wall_seconds: float) -> Failed:
    """The child neither answered nor died in time."""
    return _failed(FailDetail.CPU, f"Reading this took longer than {wall_seconds:g} s.")


def _out_of_memory(options: parse_protocol.ChildOptions) -> Failed:
    megabytes = options.memory_bytes // 1_000_000
    return _failed(FailDetail.MEMORY, f"Reading this needed more than {megabytes} MB of memory.")


def _signal_name(number: int) -> str:
    return next((known.name for known in signal.Signals if known == number), f"signal {number}")


def _failed(detail: FailDetail, text: str) -> Failed:
    """The text may come from a child we do not trust: short, one line, printable."""
    printable = "".join(char if char.isprintable() else " " for char in text[:TEXT_CHARS])
    return Failed(FailCode.PARSE, detail, printable)
