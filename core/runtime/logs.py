"""Log lines: `2026-11-16 12:00:01 INFO [canon] 🌐 Fetching → https://…`, or one JSON object each (LOG_FORMAT=json).

A record is one line in both, a traceback included; secrets are redacted and control characters escaped.
The logger's name is the word in brackets: `ingest`, `canon`, `refresh`, `timer`, `queue`, …
"""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import datetime
from typing import TextIO

from core.pages.text_cleaning import printable
from core.runtime.log_capture import CaptureHandler
from core.secret_text import SecretStr
from core.settings import Settings, misnamed_settings
from core.urls import redis_url
from core.urls.secrets import redact

LOGGERS = (
    *("ingest", "canon", "refresh", "embed", "search", "timer", "queue", "web", "mcp", "webhooks"),
    *("store", "net", "sample", "settings", "up", "crawler"),
)
REPORTED_VARIABLE = "FRESHET_REPORTED_NAMES"
"""In the environment of processes that we start: the unknown setting names that were reported already."""
_reported: set[str] = set()
SHORTEST_SECRET = 3
"""What is shorter protects nothing, and to hide it would make every line unreadable."""


def configure(settings: Settings, stream: TextIO | None = None) -> None:
    """Configure logging for this process; call once, in `main`."""
    formatter = _JsonFormatter if settings.log_format == "json" else _TextFormatter
    handler = _LineHandler(stream or sys.stderr)
    handler.setFormatter(formatter(secret_values(settings)))
    root = logging.getLogger()
    captured = CaptureHandler()
    captured.setFormatter(_TextFormatter(secret_values(settings)))
    root.handlers[:] = [handler, captured]
    root.setLevel(logging.WARNING)
    for name in LOGGERS:
        logging.getLogger(name).setLevel(settings.log_level)
    _report_misnamed_settings()


class _LineHandler(logging.Handler):
    """Writes above a progress bar when there is one."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    def emit(self, record: logging.LogRecord) -> None:
        # Whoever shows a bar has imported it; importing it here would cost a worker's every job 10 ms.
        tqdm = sys.modules.get("tqdm")
        try:
            line = printable(self.format(record))
            if tqdm:
                tqdm.tqdm.write(line, file=self._stream)
            else:
                self._stream.write(f"{line}\n")
        except (OSError, ValueError):
            self.handleError(record)


class _TextFormatter(logging.Formatter):
    """A line break in someone's URL becomes a blank, so that it cannot forge a record; in a traceback it is `\\n`."""

    def __init__(self, secrets: tuple[str, ...]) -> None:
        super().__init__("%(asctime)s %(levelname)s [%(name)s] %(message)s", "%Y-%m-%d %H:%M:%S")
        self._secrets = secrets

    def formatMessage(self, record: logging.LogRecord) -> str:
        return " ".join(super().formatMessage(record).splitlines())

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record), self._secrets).replace("\n", "\\n").replace("\t", "\\t")


class _JsonFormatter(logging.Formatter):
    """For programs that collect logs."""

    def __init__(self, secrets: tuple[str, ...]) -> None:
        super().__init__()
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": redact(record.getMessage(), self._secrets),
        }
        if record.exc_info:
            fields["exception"] = redact(self.formatException(record.exc_info), self._secrets)
        return json.dumps(fields, ensure_ascii=False)


def reported_environment() -> dict[str, str]:
    """Return what to add to the environment of a process that should not repeat this one's reports."""
    return {REPORTED_VARIABLE: ",".join(sorted(_reported))}


def _report_misnamed_settings() -> None:
    """Warn of each name once over this process, those it forks and those `up` starts: jobs configure logging again."""
    _reported.update(name for name in os.environ.get(REPORTED_VARIABLE, "").split(",") if name)
    for name, sentence in misnamed_settings().items():
        if name not in _reported:
            _reported.add(name)
            logging.getLogger("settings").warning("⚠️ %s", sentence)


def secret_values(settings: Settings) -> tuple[str, ...]:
    """Return every secret the settings hold, and the password inside those that are URLs; longest first."""
    secrets: set[str] = set()
    for name in settings.names():
        value = getattr(settings, name)
        if isinstance(value, SecretStr) and (secret := value.get_secret_value()):
            secrets |= redis_url.passwords(secret) if "://" in secret else {secret}
    return tuple(sorted((one for one in secrets if len(one) >= SHORTEST_SECRET), key=len, reverse=True))
