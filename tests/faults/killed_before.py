"""Run a command that kills itself right before a certain change of the disk.

    python -m tests.faults.killed_before 'files_metadata.json$' 1 scripts.domain crawl DOMAIN01

It dies before the first rename, link, removal or new folder whose path matches; before the n-th with another number,
and never with 0: then it says at its end how many there were.
"""

from __future__ import annotations

import os
import re
import runpy
import signal
import sys
from pathlib import Path
from typing import Any

DISK_CHANGES = {"os.rename": (1, 3), "os.link": (1, 3), "os.remove": (0, 1), "os.rmdir": (0, 1), "os.mkdir": (0, 2)}
"""Where the events of the interpreter have the path that is changed, and the folder that it is seen from."""


def main(pattern: str, number: str, module: str, *words: str) -> None:
    """Run the module as `python -m` does."""
    wanted, kill_at, changes = re.compile(pattern), int(number), 0

    def count(event: str, values: tuple[Any, ...]) -> None:
        nonlocal changes
        if event in DISK_CHANGES and wanted.search(changed_path(event, values)):
            changes += 1
            if changes == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    sys.modules.pop(module, None)
    sys.argv = [module, *words]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        sys.stderr.write(f"disk changes: {changes}\n")


def changed_path(event: str, values: tuple[Any, ...]) -> str:
    """Return the whole path of what is changed."""
    place, folder_place = DISK_CHANGES[event]
    path, folder = os.fsdecode(values[place]), values[folder_place]
    return path if folder in (None, -1) else str(Path(f"/proc/self/fd/{folder}").readlink() / path)


if __name__ == "__main__":
    main(*sys.argv[1:])
