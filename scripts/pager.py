"""Show a long text page by page on a terminal; anywhere else just print it."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys

from core.pages.text_cleaning import printable
from core.runtime.terminal import echo

DEFAULT_PAGER = "less -R"


def show(text: str) -> None:
    """Print the text; on a terminal that is too small for it, through PAGER."""
    words = shlex.split(os.environ.get("PAGER", DEFAULT_PAGER))
    if not words or not sys.stdout.isatty() or not _is_longer_than_screen(text):
        echo(text)
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the pager's
    try:
        subprocess.run(words, input=printable(text).encode(), check=False)
    except FileNotFoundError:
        echo(text)
    finally:
        signal.signal(signal.SIGINT, before)


def _is_longer_than_screen(text: str) -> bool:
    columns, lines = shutil.get_terminal_size()
    return sum(len(line) // max(columns, 1) + 1 for line in text.splitlines()) >= lines
