"""A parse child: `python -m core.runtime.parse_child OPTIONS`, started by the pool and by nobody else.

Reads one call at a time from the socket it got as standard input, answers, and exits on end of file.
It limits itself; whatever still goes wrong is the parent's to see and to clean up.
"""

from __future__ import annotations

import gc
import math
import os
import resource
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from core.errors import CutShort
from core.runtime import parse_tasks
from core.runtime.parse_protocol import EXIT_MEMORY, HEADER, ChildOptions, ReplyStatus, call_decoder, reply_frame
from core.runtime.parse_tasks import ParseTask

OPEN_FILES = 64
GARBAGE_THRESHOLD = 20_000
"""New objects before the youngest are searched for garbage. A page makes thousands that live until its answer is sent;
with Python's 700 they are searched again and again, for a twentieth of the CPU time of a page."""
PR_SET_PDEATHSIG = 1
"""From linux/prctl.h: the signal a process gets when its parent dies."""


def main(argument: str) -> None:
    """Serve calls until the parent hangs up, or until it is better to start afresh."""
    options = msgspec.json.decode(argument, type=ChildOptions)
    _die_with_parent(options.parent_pid)
    connection = socket.socket(fileno=os.dup(0))  # moved away from where a library might read
    _point_to_null(0)
    gc.set_threshold(GARBAGE_THRESHOLD)
    registry = parse_tasks.load(options.registry)
    if sys.platform != "darwin":  # there the kernel refuses any limit below what a fresh process has mapped
        _set_limit(resource.RLIMIT_AS, options.memory_bytes)
    _set_limit(resource.RLIMIT_NOFILE, OPEN_FILES)
    _set_limit(resource.RLIMIT_CORE, 0)
    connection.sendall(HEADER.pack(0))  # ready: from here on, a death is blamed on the body
    _point_to_null(2)  # errors of the start reach the log; what parsers print about a body does not
    try:
        serve(connection, registry, options)
    except MemoryError:
        os._exit(EXIT_MEMORY)
    except ConnectionError:
        pass  # the parent went away while we were answering; nobody is left to tell


def serve(connection: socket.socket, registry: Mapping[str, ParseTask], options: ChildOptions) -> None:
    """Answer calls one by one."""
    stream = connection.makefile("rb")
    for count in range(1, options.max_tasks + 1):
        header = stream.read(HEADER.size)
        if len(header) < HEADER.size:
            return
        (length,) = HEADER.unpack(header)
        call = call_decoder.decode(stream.read(length))
        task = registry[call.task]
        # The kernel counts the CPU time of a process's whole life, in whole seconds. It counts by ticks, which run
        # ahead of what it tells us by a tenth of a second and more: hence the second on top.
        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu_seconds = used.ru_utime + used.ru_stime + options.cpu_seconds * task.patience
        _set_limit(resource.RLIMIT_CPU, math.ceil(cpu_seconds) + 1)
        reply, is_spent = answer(task, call.request, count == options.max_tasks, options.memory_bytes)
        connection.sendall(reply)
        if is_spent:
            return


def answer(task: ParseTask, request: msgspec.Raw, is_last: bool, memory_bytes: int) -> tuple[bytearray, bool]:
    """Run one task; return the framed reply, and whether this child should end after it."""
    try:
        result = task.run(msgspec.msgpack.decode(request, type=task.request))
        is_spent = is_last or _rss_bytes() > memory_bytes // 2
        return reply_frame(ReplyStatus.DONE, is_spent, result=result), is_spent
    except MemoryError:
        # This child is then replaced: what is left of its heap is of no use to the next body.
        return reply_frame(ReplyStatus.MEMORY, True), True
    except CutShort as error:
        status, text = ReplyStatus.CUT_SHORT, str(error)
    except task.refusals as error:
        status, text = ReplyStatus.REFUSED, str(error)
    except Exception as error:  # noqa: BLE001 - parsers raise anything on hostile input; the parent records it
        status, text = ReplyStatus.RAISED, _describe(error)
    return reply_frame(status, is_last, text=text), is_last


def _describe(error: Exception) -> str:
    """Class and place, not the message: messages quote the input, and a body never enters a log."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return f"{type(error).__name__} at an unknown place"
    return f"{type(error).__name__} at {Path(traceback.tb_frame.f_code.co_filename).name}:{traceback.tb_lineno}"


def _die_with_parent(parent_pid: int) -> None:
    """End of file tells us too, but only between tasks; on Linux the kernel tells us at once."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent_pid:  # it died before the call above took effect
            os._exit(0)


def _point_to_null(descriptor: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, descriptor)
    os.close(null)


def _set_limit(kind: int, value: int) -> None:
    """Lower the soft limit; a lower hard limit from outside wins."""
    _, hard = resource.getrlimit(kind)
    soft = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (soft, hard))


def _rss_bytes() -> int:
    """Return the memory in use; 0 where the system does not say cheaply (then only the task count retires a child)."""
    try:
        pages = Path("/proc/self/statm").read_bytes().split()[1]
    except OSError:
        return 0
    return int(pages) * resource.getpagesize()


if __name__ == "__main__":
    main(sys.argv[1])
