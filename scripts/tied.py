"""Run a command that ends when whoever started it dies, be it by kill -9 (Linux; elsewhere it just runs).

python -m scripts.tied PARENT_PID COMMAND …
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
"""From linux/prctl.h."""


def command(*words: str) -> list[str]:
    """The words of a command tied to this process."""
    return [sys.executable, "-m", "scripts.tied", str(os.getpid()), *words]


def main() -> None:
    """Tie, then become the command."""
    parent, *words = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):
        sys.exit(1)  # it died before we were tied
    os.execvp(words[0], words)  # noqa: S606 - our own words, no shell


if __name__ == "__main__":
    main()
