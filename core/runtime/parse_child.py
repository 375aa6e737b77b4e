"""A parse child: `python -m core.runtime.parse_child OPTIONS`, started by the pool and by nobody else.

Reads one call at a time from the socket it got as standard input, answers, and exits on end of file.
It limits itself; whatever still goes wrong is the parent's to see and to clean up.
"""

from __future__ import annotations

import math
import os
import resource
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import msgspec

from core.errors import CutShort
from core.runtime import parse_protocol, parse_tasks

OPEN_FILES = 64
PR_SET_PDEATHSIG = 1
"""From linux/prctl.h: the signal a process gets when its parent dies."""


def main(argument: str) -> None:
    """Serve calls until the parent hangs up, or until it is better to start afresh."""
    options = msgspec.json.decode(argument, type=parse_protocol.ChildOptions)
    _die_with_parent(options.parent_pid)
    connection = _take_socket()
    registry = parse_tasks.load(options.registry)
    _limit(options.memory_bytes)
    connection.sendall(parse_protocol.HEADER.pack(0))  # ready: from here on, a death is blamed on the body
    _silence()
    try:
        serve(connection, registry, options)
    except MemoryError:
        os._exit(parse_protocol.EXIT_MEMORY)
    except ConnectionError:
        pass  # the parent went away while we were answering; nobody is left to tell


def serve(
    connection: socket.socket, registry: Mapping[str, parse_tasks.ParseTask], options: parse_protocol.ChildOptions
) -> None:
    """Answer calls one by one."""
    stream = connection.makefile("rb")
    for count in range(1, options.max_tasks + 1):
        header = stream.read(parse_protocol.HEADER.size)
        if len(header) < parse_protocol.HEADER.size:
            return
        (length,) = parse_protocol.HEADER.unpack(header)
        call = parse_protocol.call_decoder.decode(stream.read(length))
        task = registry[call.task]
        _raise_cpu_limit(options.cpu_seconds * task.patience)
        is_last = count == options.max_tasks
        reply, is_spent = answer(task, call.request, is_last, options.memory_bytes)
        connection.sendall(reply)
        if is_spent:
            return


def answer(
    task: parse_tasks.ParseTask, request: msgspec.Raw, is_last: bool, memory_bytes: int
) -> tuple[bytearray, bool]:
    """Run one task; the framed reply, and whether this child should end after it."""
    try:
        result = task.run(msgspec.msgpack.decode(request, type=task.request))
        is_spent = is_last or _rss_bytes() > memory_bytes // 2
        return parse_protocol.reply_frame(parse_protocol.ReplyStatus.DONE, is_spent, result=result), is_spent
    except MemoryError:
        # Answered by a child that is then replaced: what is left of its heap is of no use to the next body.
        return parse_protocol.reply_frame(parse_protocol.ReplyStatus.MEMORY, True), True
    except CutShort as error:
        return parse_protocol.reply_frame(parse_protocol.ReplyStatus.CUT_SHORT, is_last, text=str(error)), is_last
    except task.refusals as error:
        return parse_protocol.reply_frame(parse_protocol.ReplyStatus.REFUSED, is_last, text=str(error)), is_last
    except Exception as error:  # noqa: BLE001 - parsers raise anything on hostile input; the parent records it
        return parse_protocol.reply_frame(parse_protocol.ReplyStatus.RAISED, is_last, text=_describe(error)), is_last


def _describe(error: Exception) -> str:
    """Class and place, not the message: messages quote the input, and a body never enters a log."""
    return f"{type(error).__name__} at {_place(error.__traceback__)}"


def _place(traceback: TracebackType | None) -> str:
    if traceback is None:
        return "an unknown place"
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return f"{Path(traceback.tb_frame.f_code.co_filename).name}:{traceback.tb_lineno}"


def _die_with_parent(parent_pid: int) -> None:
    """End of file tells us too, but only between tasks; on Linux the kernel tells us at once."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent_pid:  # it died before the call above took effect
            os._exit(0)


def _take_socket() -> socket.socket:
    """Our end of the conversation, moved away from where a library might read or print."""
    connection = socket.socket(fileno=os.dup(0))
    _point_to_null(0)
    return connection


def _silence() -> None:
    """Errors of the start reach the log; what parsers print about a body does not."""
    _point_to_null(2)


def _point_to_null(descriptor: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, descriptor)
    os.close(null)


def _limit(memory_bytes: int) -> None:
    if sys.platform != "darwin":  # there the kernel refuses any limit below what a fresh process has mapped
        _set_limit(resource.RLIMIT_AS, memory_bytes)
    _set_limit(resource.RLIMIT_NOFILE, OPEN_FILES)
    _set_limit(resource.RLIMIT_CORE, 0)


def _set_limit(kind: int, value: int) -> None:
    """Lower the soft limit; a lower hard limit from outside wins."""
    _, hard = resource.getrlimit(kind)
    soft = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (soft, hard))


def _raise_cpu_limit(cpu_seconds: float) -> None:
    """The kernel counts the CPU time of a process's whole life, in whole seconds.

    It counts by ticks, which run ahead of what it tells us by a tenth of a second and more: hence the second on top.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    _set_limit(resource.RLIMIT_CPU, math.ceil(used.ru_utime + used.ru_stime + cpu_seconds) + 1)


def _rss_bytes() -> int:
    """Memory in use now; 0 where the system does not say cheaply (then only the task count retires a child)."""
    try:
        pages = Path("/proc/self/statm").read_bytes().split()[1]
    except OSError:
        return 0
    return int(pages) * resource.getpagesize()


if __name__ == "__main__":
    main(sys.argv[1])
