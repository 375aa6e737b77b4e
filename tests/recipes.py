"""Run the recipes of the documentation: blocks of bash, as they stand there, against the server of a test."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import redis as sync_redis

from scripts import redis_cli

ROOT = Path(__file__).parents[1]
SCRIPT = "./scripts/redis-cli"


def blocks(page: str, heading: str, language: str = "bash") -> list[str]:
    """The blocks of code below a heading of a page in docs/."""
    section = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", (ROOT / "docs" / page).read_text(), re.M | re.S)
    assert section, heading
    return re.findall(rf"```{language}\n(.*?)```", section[1], re.S)


def run(line: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    pipes = [int(environment[name]) for name in ("QUESTIONS", "ANSWERS") if name in environment]
    return subprocess.run(
        ["bash", "-c", line],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        pass_fds=pipes,
    )


ASK = """
ask() {
    printf '%q ' "$@" >&"$QUESTIONS"; echo >&"$QUESTIONS"
    local line
    while IFS= read -r line <&"$ANSWERS" && [ "$line" != "$END" ]; do printf '%s\\n' "$line"; done
}
"""
"""Instead of the script: ask the test, which calls the same function without starting Python anew each time."""


@contextlib.contextmanager
def answering(store: dict[str, str]) -> Iterator[dict[str, str]]:
    """Answer the questions of `ask` in a shell with the environment that this yields."""
    (questions, asking), (answered, answering) = os.pipe(), os.pipe()
    url, end = (Path(store["HOME"]) / "redis.url").read_text().strip(), "-- end of the answer --"

    def answer() -> None:
        with os.fdopen(questions) as lines, os.fdopen(answering, "w") as out, sync_redis.Redis.from_url(url) as client:
            for line in lines:
                with contextlib.redirect_stdout(out):
                    redis_cli.speak(client, shlex.split(line))
                print(end, file=out, flush=True)

    thread = threading.Thread(target=answer)
    thread.start()
    yield store | {"QUESTIONS": str(asking), "ANSWERS": str(answered), "END": end}
    os.close(asking)
    thread.join()
    os.close(answered)
