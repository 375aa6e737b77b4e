"""Log lines: their shape, and what never appears in them."""

from __future__ import annotations

import io
import json
import logging
import time
from datetime import datetime

import pytest

from core.runtime import logs, progress
from core.secret_text import SecretStr
from core.settings import Settings
from scripts.launch_supervisor import LOG_LINE

JSON = Settings(log_format="json")


def logged(
    settings: Settings, name: str, level: int, message: str, *values: object, error: Exception | None = None
) -> str:
    stream = io.StringIO()
    root = logging.getLogger()
    before = root.handlers[:], root.level
    logs.configure(settings, stream)
    logging.getLogger(name).log(level, message, *values, exc_info=error)
    root.handlers[:], root.level = before
    return stream.getvalue()


def raised(message: str) -> ValueError:
    try:
        raise ValueError(message)
    except ValueError as error:
        return error


def test_lines_have_time_and_level_first() -> None:
    """`2026-11-16 12:00:01 INFO [canon] 🌐 Fetching → URL`, in local time and without milliseconds."""
    line = logged(Settings(), "canon", logging.INFO, "🌐 Fetching → %s", "https://example.com/xyz")

    assert line[19:] == " INFO [canon] 🌐 Fetching → https://example.com/xyz\n"
    assert abs(time.mktime(time.strptime(line[:19], "%Y-%m-%d %H:%M:%S")) - time.time()) < 60


def test_json_lines() -> None:
    """One object per line, its time with an offset; the message as it is in text."""
    line = logged(JSON, "canon", logging.INFO, "🌐 Fetching → %s", "https://example.com/xyz")
    fields = json.loads(line)
    at = datetime.fromisoformat(fields.pop("time"))

    assert line.count("\n") == 1
    assert fields == {"level": "INFO", "logger": "canon", "message": "🌐 Fetching → https://example.com/xyz"}
    assert at.utcoffset() is not None
    assert abs(at.timestamp() - time.time()) < 60


def test_no_secret_in_any_line() -> None:
    """Neither a password of the settings nor a key in somebody's URL."""
    settings = Settings(redis_url=SecretStr("redis://:hunt%40er2@h/0"))
    line = logged(settings, "ingest", logging.WARNING, "hunt@er2 %s", "http://x/?api_key=CANARY")

    assert line[19:] == " WARNING [ingest] … http://x/?api_key=…\n"


def test_no_secret_in_json() -> None:
    """The same in messages and tracebacks, also a secret that JSON writes with a backslash."""
    settings = JSON.model_copy(update={"github_token": SecretStr('hun"ter2')})
    error = raised('http://x/?api_key=CANARY\\ hun"ter2')
    line = logged(settings, "ingest", logging.WARNING, 'hun"ter2 http://x/?api_key=CANARY\\', error=error)
    fields = json.loads(line)

    assert fields["message"] == "… http://x/?api_key=…"
    assert fields["exception"].endswith("ValueError: http://x/?api_key=… …")
    assert "CANARY" not in line
    assert "hun" not in line


@pytest.mark.parametrize("settings", [Settings(), JSON])
def test_a_record_is_one_line(settings: Settings) -> None:
    """Neither a line break in somebody's URL nor a traceback makes lines of its own, and nothing moves a cursor."""
    error = raised("one\ntwo\x1b[2J\x9b2J\u202e\tthree")
    line = logged(settings, "ingest", logging.WARNING, "x → %s", "http://h/\n[ingest] all is well", error=error)

    assert line.count("\n") == 1
    assert line.rstrip("\n").isprintable()
    assert "Traceback (most recent call last):\\n" in line
    assert "one\\ntwo\\u001b[2J\\u009b2J\\u202e\\tthree" in line


@pytest.mark.parametrize("settings", [Settings(), JSON])
def test_up_passes_log_lines_on_as_they_are(settings: Settings) -> None:
    """`./scripts/up` puts no name in front of what is a log line already, in either format."""
    line = logged(settings, "canon", logging.INFO, "🌐 Fetching → %s", "https://example.com/xyz")

    assert LOG_LINE.match(line.encode())
    assert not LOG_LINE.match(b"[sample] printed by a process")


def test_level_is_a_setting_and_strangers_are_quiet() -> None:
    """LOG_LEVEL holds for our loggers; libraries log from warning on."""
    assert logged(Settings(log_level="ERROR"), "ingest", logging.INFO, "x") == ""
    assert logged(Settings(log_level="DEBUG"), "aiohttp", logging.INFO, "x") == ""


def test_bar_is_silent_without_a_terminal() -> None:
    """Under honcho and cron there is no bar."""
    with progress.bar(3, "feeds") as bar:
        bar.update()

        assert bar.disable
