"""A process beside another: when it is started again, when it ends. `test_inline_worker` has the whole worker."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys

import pytest

from core.runtime.sidecar import Sidecar


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_delays_grow_and_begin_anew(caplog: pytest.LogCaptureFixture) -> None:
    """1, 2, 4 … 60 s for what dies at once; 1 s for what lived for a minute. No start before its time."""
    clock, said = Clock(), []
    with Sidecar([sys.executable, "-c", "raise SystemExit(3)"], clock) as sidecar, caplog.at_level(logging.ERROR):
        for number in range(10):
            first = sidecar._process
            assert first
            first.wait()
            clock.seconds += 60 if number == 9 else 0
            sidecar.check()
            said.append(float(caplog.messages[-1].rpartition("again in ")[2].removesuffix(" s")))
            clock.seconds += said[-1] - 0.1
            sidecar.check()
            assert sidecar._process is None
            clock.seconds += 0.1
            sidecar.check()

    assert said == [1, 2, 4, 8, 16, 32, 60, 60, 60, 1]
    assert all("died (exit 3)" in message for message in caplog.messages)


def test_one_that_is_started_too_late_ends_at_once() -> None:
    """Its parent died before it could be tied to it."""
    code = (
        "import os, time; from core.runtime import sidecar as s; s.stop_with_parent(os.getppid() + 1); time.sleep(60)"
    )
    late = subprocess.run([sys.executable, "-c", code], timeout=30, check=False)

    assert late.returncode == -signal.SIGTERM
