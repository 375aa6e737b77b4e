"""Log lines in one shape: `[ingest] ✅ 12 new links → https://…`. No secret, no body, no escape sequence.

The logger's name is the word in brackets: `ingest`, `canon`, `refresh`, `timer`, `queue`, …
"""

from __future__ import annotations

import logging
import os
import sys
from typing import TextIO

from pydantic import SecretStr
from tqdm import tqdm

from core.pages.printable import printable
from core.settings import Settings, misnamed
from core.urls import redis_url
from core.urls.secrets import redacted

OURS = ("ingest", "canon", "refresh", "embed", "search", "timer", "queue", "store", "net", "sample", "settings", "up")
TOLD = "FRESHET_TOLD_NAMES"
"""In the environment of processes that we start: the names that were told already."""
_told: set[str] = set()
"""Names of the environment that were told to be no settings."""


class _LineHandler(logging.Handler):
    """Writes above a progress bar when there is one."""

    def __init__(self, stream: TextIO, secrets: tuple[str, ...]) -> None:
        super().__init__()
        self._stream = stream
        self._secrets = secrets

    def emit(self, record: logging.LogRecord) -> None:
        try:
            tqdm.write(printable(redacted(self.format(record), self._secrets)), file=self._stream)
        except (OSError, ValueError):
            self.handleError(record)


class _OneLine(logging.Formatter):
    """A line break in somebody's URL does not make a log line of its own; only tracebacks have several."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return " ".join(super().formatMessage(record).splitlines())


def set_up(settings: Settings, stream: TextIO | None = None) -> None:
    """Configure logging for this process; call once, in `main`."""
    handler = _LineHandler(stream or sys.stderr, secret_values(settings))
    handler.setFormatter(_OneLine("[%(name)s] %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in OURS:
        logging.getLogger(name).setLevel(settings.log_level)
    _tell_misnamed()


def told_environment() -> dict[str, str]:
    """What to add to the environment of a process that need not tell again what this one has told."""
    return {TOLD: ",".join(sorted(_told))}


def _tell_misnamed() -> None:
    """Once in a process, those it forks and those `up` starts: jobs set up their logging again."""
    _told.update(name for name in os.environ.get(TOLD, "").split(",") if name)
    for name, sentence in misnamed().items():
        if name not in _told:
            _told.add(name)
            logging.getLogger("settings").warning("⚠️ %s", sentence)


def secret_values(settings: Settings) -> tuple[str, ...]:
    """Every secret the settings hold, and the password inside those that are URLs."""
    found: set[str] = set()
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, SecretStr) and value.get_secret_value():
            found |= _parts(value.get_secret_value())
    return tuple(sorted(found, key=len, reverse=True))


def _parts(secret: str) -> set[str]:
    if "://" not in secret:
        return {secret}
    return redis_url.passwords(secret)
