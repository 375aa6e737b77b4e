"""Log lines: their shape, and what never appears in them."""

from __future__ import annotations

import io
import logging

from pydantic import SecretStr

from core.runtime import log as console
from core.runtime import progress
from core.settings import Settings


def logged(settings: Settings, name: str, level: int, message: str, *values: object) -> str:
    stream = io.StringIO()
    root = logging.getLogger()
    before = root.handlers[:], root.level
    console.set_up(settings, stream)
    logging.getLogger(name).log(level, message, *values)
    root.handlers[:], root.level = before
    return stream.getvalue()


def test_lines_have_the_shape_of_spec_004() -> None:
    """`[canon] 🌐 Fetching → URL`, one line each."""
    line = logged(Settings(), "canon", logging.INFO, "🌐 Fetching → %s", "https://example.com/xyz")

    assert line == "[canon] 🌐 Fetching → https://example.com/xyz\n"


def test_no_secret_in_any_line() -> None:
    """Neither a password of the settings nor a key in somebody's URL."""
    settings = Settings(redis_url=SecretStr("redis://:hunt%40er2@h/0"))
    line = logged(settings, "ingest", logging.WARNING, "hunt@er2 %s", "http://x/?api_key=CANARY")

    assert line == "[ingest] … http://x/?api_key=…\n"


def test_a_line_stays_a_line() -> None:
    """A line break in somebody's URL cannot forge a log line."""
    line = logged(Settings(), "ingest", logging.WARNING, "x → %s", "http://h/\n[ingest] all is well")

    assert line.count("\n") == 1


def test_level_is_a_setting_and_strangers_are_quiet() -> None:
    """LOG_LEVEL holds for our loggers; libraries speak from warning on."""
    assert logged(Settings(log_level="ERROR"), "ingest", logging.INFO, "x") == ""
    assert logged(Settings(log_level="DEBUG"), "aiohttp", logging.INFO, "x") == ""


def test_bar_is_silent_without_a_terminal() -> None:
    """Under honcho and cron there is no bar."""
    with progress.bar(3, "feeds") as bar:
        bar.update()

        assert bar.disable
