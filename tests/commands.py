"""Scripts as a person runs them, against a test's own server."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from core.keys import Keys
from core.settings import Settings
from core.store import connect
from tests import prefork

ROOT = Path(__file__).parents[1]


def environment(settings: Settings) -> dict[str, str]:
    """The variables that give a process these settings."""
    return {
        "REDIS_URL": connect.url_of(settings),
        "PERSISTENT_STORAGE_PATH": str(settings.persistent_storage_path),
        "FEEDS_FILE": str(settings.feeds_file),
        "FOLDER_ROOTS": ",".join(settings.folder_roots),
        "FETCH_ALLOWED_HOSTS": "127.0.0.0/8",
        "FETCH_HOST_GAP_SECONDS": "0",
        "LOG_LEVEL": "WARNING",
    }


def adopt(monkeypatch: pytest.MonkeyPatch, settings: Settings, **more: str) -> None:
    """Scripts called in this process see the test's server; the doctor looks twice without a pause."""
    monkeypatch.setattr("core.doctor.io.doctor.CONFIRM_SECONDS", 0.0)
    for name, value in (environment(settings) | more).items():
        monkeypatch.setenv(name, value)


async def run(settings: Settings, *command: str, cwd: Path = ROOT, **more: str) -> subprocess.CompletedProcess[str]:
    """A script in a process of its own, to its end."""
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG"}}
    return await asyncio.to_thread(
        prefork.run, command, cwd, kept | {"PYTHONPATH": str(ROOT)} | environment(settings) | more
    )


async def refused(settings: Settings, sentence: str, *command: str) -> str:
    """Run a script that cannot do what it is asked: exit code 2, and one line with this sentence, which is returned."""
    done = await run(settings, *command)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    return done.stderr


async def everything(client: connect.Client) -> dict[str, object]:
    """All keys with their content, to see that nothing was written."""
    readers: dict[Any, Any] = {
        "hash": client.hgetall,
        "set": client.smembers,
        "string": client.get,
        "list": lambda key: client.lrange(key, 0, -1),
        "zset": lambda key: client.zrange(key, 0, -1, withscores=True),
        "stream": client.xrange,
    }
    names = sorted([key async for key in client.scan_iter("*")])
    return {key: await readers[await client.type(key)](key) for key in names}


def changed_beside_runs(before: Mapping[str, object], after: Mapping[str, object], keys: Keys) -> list[str]:
    """The keys that differ, but for those of runs: a check is a run, and writes nothing else."""
    of_runs = (keys.run(""), keys.runs, keys.events, keys.done(""))
    return [key for key in {*before, *after} if before.get(key) != after.get(key) and not key.startswith(of_runs)]
