"""What `./scripts/up` is for: the Procfile until Ctrl-C, or one pass of every stage."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from core.keys import Keys
from core.registry import field_parsing
from core.registry.io.overview import Overview
from core.runtime.queue_names import QueueName
from core.settings import Settings
from core.store import connect
from scripts import guard
from scripts.launch_family import ROOT, Family, Process
from scripts.launch_stop import Stop, Stopped

log = logging.getLogger("up")

MOST_RUNS = 6
PROCFILE_LINE = re.compile(r"([A-Za-z0-9_-]+):\s*(.+)")


@dataclass(frozen=True, slots=True)
class Up:
    """What the work needs."""

    settings: Settings
    family: Family
    stop: Stop
    look_at_server: Callable[[], None]

    def watch(self, processes: dict[str, Process]) -> tuple[str, int]:
        """Look after everything until one of these ends; its name and exit code."""
        while True:
            for name, process in processes.items():
                if process.poll() is not None:
                    self.family.forget(process.pid)
                    return name, process.returncode
            self.look_at_server()
            self.family.look()
            self.stop.pause()

    def run(self, *words: str) -> int:
        """Run a module of ours to its end; its exit code."""
        return self.watch({"": self.family.start([sys.executable, "-m", *words])})[1]


def one_pass(up: Up) -> int:
    """Every stage once, in the order of the pipeline, then the summary."""
    stages = (_poll, _fetch, _refresh, lambda up: up.run("scripts.status"))
    return next((code for code in (stage(up) for stage in stages) if code), 0)


def _poll(up: Up) -> int:
    return up.run("workers.ingestor", "--once")


def _fetch(up: Up) -> int:
    """The canonical fetcher stops when its time is over, so it is called until it leaves nothing."""
    for _ in range(MOST_RUNS):
        code = up.run("workers.canonical_fetcher")
        if code or not asyncio.run(_deferred(up.settings)):
            return code
    return 0


def _refresh(up: Up) -> int:
    """Jobs for what is due, and a worker that runs them; again until nothing is due."""
    for _ in range(MOST_RUNS):
        if not asyncio.run(_due(up.settings)):
            return 0
        code = up.run("workers.timer", "--once") or up.run("workers", *QueueName, "--burst")
        if code:
            return code
    return 0


async def _deferred(settings: Settings) -> int:
    async with _overview(settings) as overview:
        return field_parsing.integer((await overview.counters(Keys.of(settings).canonical_last_run)).get("deferred"))


async def _due(settings: Settings) -> int:
    async with _overview(settings) as overview:
        return await overview.count_due()


@contextlib.asynccontextmanager
async def _overview(settings: Settings) -> AsyncIterator[Overview]:
    async with connect.open_store(settings) as client:
        yield Overview(client, Keys.of(settings))


def run_procfile(up: Up) -> int:
    """The processes of the Procfile, until Ctrl-C or until one of them ends."""
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    lines = PROCFILE_LINE.findall((ROOT / "Procfile").read_text(encoding="utf-8"))
    width = max(len(name) for name, _ in lines)
    processes = {}
    for name, command in lines:
        processes[name] = up.family.start(["/bin/sh", "-c", command], environment, is_piped=True)
        up.family.relay(name, width, processes[name])
    try:
        name, code = up.watch(processes)
    except Stopped:
        log.info("👋 Stopping")
        up.family.end_all(guard.WORKER)
        raise
    log.error("💥 %s ended (%s); everything else is stopped", name, f"signal {-code}" if code < 0 else f"exit {code}")
    return code if code > 0 else 1
