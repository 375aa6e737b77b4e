"""A parse child, as the fork server made it: reads one call at a time from its socket and answers it.

Ends on end of file. It limits itself; whatever still goes wrong is the pool's to see and to clean up.
"""

from __future__ import annotations

import math
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from core.errors import CutShort
from core.runtime.parse_protocol import EXIT_MEMORY, HEADER, PID, ChildOptions, ReplyStatus, call_decoder, reply_frame
from core.runtime.parse_tasks import LOADED_WHEN_NEEDED, ParseTask

CONNECTION = 3
"""The descriptor of the socket. All above it are closed: the sockets of other children, and that of the server."""
OPEN_FILES = 64
PR_SET_PDEATHSIG = 1
"""From linux/prctl.h: the signal a process gets when its parent dies."""


class ModuleNotLoaded(BaseException):
    """A module that the fork server loads for all. No `Exception`: parsers catch those, and go on without it."""


class LoadedByServer:
    """Refuses to import what the fork server loads when it is needed."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Raise for these modules, and leave all others to Python."""
        if name in LOADED_WHEN_NEEDED:
            raise ModuleNotLoaded(name)


def serve(inherited: socket.socket, registry: Mapping[str, ParseTask], options: ChildOptions) -> None:
    """Serve calls until the pool hangs up, or until it is better to start afresh."""
    os.dup2(inherited.fileno(), CONNECTION)
    os.closerange(CONNECTION + 1, os.sysconf("SC_OPEN_MAX"))
    connection = socket.socket(fileno=CONNECTION)
    if sys.platform != "darwin":  # there the kernel refuses any limit below what a fresh process has mapped
        _set_limit(resource.RLIMIT_AS, options.memory_bytes)
    _set_limit(resource.RLIMIT_NOFILE, OPEN_FILES)
    _set_limit(resource.RLIMIT_CORE, 0)
    sys.meta_path.insert(0, LoadedByServer)
    point_to_null(2)  # errors of the start reach the log; what parsers print about a body does not
    try:
        # Its pid says that it is ready: from here on, a death is blamed on the body.
        connection.sendall(HEADER.pack(PID.size) + PID.pack(os.getpid()))
        _answer_calls(connection, registry, options)
    except MemoryError:
        os._exit(EXIT_MEMORY)
    except ConnectionError:
        pass  # the pool went away while we were answering; nobody is left to tell


def _answer_calls(connection: socket.socket, registry: Mapping[str, ParseTask], options: ChildOptions) -> None:
    """Answer calls one by one."""
    stream, memory, cpu_limit = connection.makefile("rb"), _open_memory_status(), 0
    is_large = lambda: _rss_bytes(memory) > options.memory_bytes // 2  # noqa: E731
    for count in range(1, options.max_tasks + 1):
        header = stream.read(HEADER.size)
        if len(header) < HEADER.size:
            return
        (length,) = HEADER.unpack(header)
        call = call_decoder.decode(stream.read(length))
        task = registry[call.task]
        # The kernel counts the CPU time of a process's whole life, in whole seconds. It counts by ticks, which run
        # ahead of what it tells us by a tenth of a second and more: hence the second on top.
        needed = math.ceil(time.process_time() + options.cpu_seconds * task.patience) + 1
        if needed != cpu_limit:
            cpu_limit = needed
            _set_limit(resource.RLIMIT_CPU, cpu_limit)
        reply, is_spent = answer(task, call.request, count == options.max_tasks, is_large)
        connection.sendall(reply)
        if is_spent:
            return


def answer(
    task: ParseTask, request: msgspec.Raw, is_last: bool, is_large: Callable[[], bool]
) -> tuple[bytearray, bool]:
    """Run one task; return the framed reply, and whether this child should end after it: the last, or too large."""
    try:
        result = task.run(msgspec.msgpack.decode(request, type=task.request))
        is_spent = is_last or is_large()
        return reply_frame(ReplyStatus.DONE, is_spent, result=result), is_spent
    except ModuleNotLoaded as needed:
        return reply_frame(ReplyStatus.NOT_LOADED, True, text=str(needed)), True
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


def die_with_parent(parent_pid: int) -> None:
    """End of file tells us too, but only between tasks; on Linux the kernel tells us at once."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent_pid:  # it died before the call above took effect
            os._exit(0)


def point_to_null(descriptor: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, descriptor)
    os.close(null)


def _set_limit(kind: int, value: int) -> None:
    """Lower the soft limit; a lower hard limit from outside wins."""
    _, hard = resource.getrlimit(kind)
    soft = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (soft, hard))


def _open_memory_status() -> int | None:
    """Open what tells the memory in use; None where the system has no such file."""
    try:
        return os.open("/proc/self/statm", os.O_RDONLY)
    except OSError:
        return None


def _rss_bytes(memory: int | None) -> int:
    """Return the memory in use; 0 where the system does not say cheaply (then only the task count retires a child)."""
    if memory is None:
        return 0
    try:
        return int(os.pread(memory, 100, 0).split()[1]) * resource.getpagesize()
    except OSError:  # a parser has closed it
        return 0
