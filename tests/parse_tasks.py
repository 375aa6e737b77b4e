"""Tasks that behave as hostile input makes real parsers behave. Registered as `tests.parse_tasks:TASKS`."""

from __future__ import annotations

import ctypes
import importlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from core.errors import NotAFeed
from core.runtime.parse_child import ModuleNotLoaded
from core.runtime.parse_tasks import ParseTask


class Text(msgspec.Struct):
    text: str = ""


class Echoed(msgspec.Struct):
    text: str
    pid: int


def echo(request: Text) -> Echoed:
    return Echoed(request.text, os.getpid())


def shout(request: Text) -> Echoed:
    """Print as a chatty library does, to Python's streams and to the bare descriptors."""
    sys.stdout.write("garbage " * 100)
    sys.stdout.flush()
    os.write(1, b"\xff\xff\xff\xff more")
    os.write(2, b"the body")
    return echo(request)


def answer_garbage(request: Text) -> Echoed:
    """Write to every open socket, as code that took the child over could."""
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, request.text.encode("latin-1"))
        except OSError:
            continue
    return echo(request)


def hang_up(_: Text) -> None:
    """Close the socket and live on."""
    os.closerange(3, 64)
    time.sleep(3600)


def work(request: Text) -> Echoed:
    """Use as many seconds of CPU as the text says."""
    until = time.process_time() + float(request.text)
    while time.process_time() < until:
        pass
    return echo(request)


def burn_cpu(_: Text) -> None:
    while True:
        pass


def eat_memory(_: Text) -> None:
    pile = []
    while True:
        pile.append(bytearray(10_000_000))


def exit_now(_: Text) -> None:
    os._exit(7)


def kill_self(_: Text) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_first(request: Text) -> Echoed:
    """`path|3`: dies three times before it answers."""
    path, _, times = request.text.partition("|")
    with Path(path).open("a") as tries:
        tries.write("x")
    if Path(path).stat().st_size <= int(times):
        os.kill(os.getpid(), signal.SIGKILL)
    return echo(request)


def segfault(_: Text) -> None:
    ctypes.string_at(0)


def wait_for_ever(request: Text) -> None:
    """Leaves its pid in a file first, so that a test knows it is running."""
    if request.text:
        path = Path(request.text)
        path.with_suffix(".new").write_text(str(os.getpid()))
        path.with_suffix(".new").rename(path)
    while True:
        time.sleep(3600)


def recurse(request: Text) -> None:
    recurse(request)


def refuse(request: Text) -> None:
    raise NotAFeed(request.text)


def stumble(request: Text) -> None:
    raise ValueError(f"cannot read {request.text}")


def answer_wrong_type(_: Text) -> list[str]:
    return ["not", "an", "Echoed"]


def keep_memory(request: Text) -> Echoed:
    """Grows past half the child's limit and keeps it, as a leaking parser does."""
    KEPT.append(b"x" * 150_000_000)
    return echo(request)


def need_module(request: Text) -> Echoed:
    """Import a module, as a page does that needs more than others."""
    importlib.import_module(request.text)
    return echo(request)


def need_modules(request: Text) -> Echoed:
    """Import several modules, one after the other."""
    for name in request.text.split():
        importlib.import_module(name)
    return echo(request)


def need_again(request: Text) -> None:
    """Claim to lack a module that is there, as code that took the child over could."""
    raise ModuleNotLoaded(request.text)


KEPT: list[bytes] = []

_RUNS: tuple[Callable[[Text], object], ...] = (
    echo, shout, answer_garbage, hang_up, work, burn_cpu, eat_memory, exit_now, kill_self, die_first, segfault,
    wait_for_ever, recurse, refuse, stumble, answer_wrong_type, keep_memory,
    need_module, need_modules, need_again,
)  # fmt: skip
TASKS = {run.__name__: ParseTask(Text, run, Echoed) for run in _RUNS}
