"""The embedded server of `./scripts/up`: started unless REDIS_URL names another, restarted when it dies."""

from __future__ import annotations

import logging
import time
from typing import Self

from core.errors import StoreUnreachable
from core.runtime.sidecar import RestartBackoff, describe_exit
from core.settings import Settings
from core.store import connect, embedded
from scripts import guard
from scripts.launch_supervisor import Process, StopRequest, UpProcesses

log = logging.getLogger("up")


class SupervisedServer:
    """A running embedded server. Port and password stay the same, so that workers find it again."""

    def __init__(self, settings: Settings, processes: UpProcesses, stop: StopRequest) -> None:
        self._home = settings.persistent_storage_path
        self._folder = self._home / "redis"
        self._processes = processes
        self._stop = stop
        self._backoff = RestartBackoff(time.monotonic)
        embedded.stop_orphan(connect.url_of(settings), self._folder)
        if (self._home / connect.URL_FILE).exists():
            embedded.check_data_is_there(self._folder)
        self._port = embedded.free_port(settings.embedded_redis_port)
        self._password = connect.embedded_password(self._home)
        self._running: embedded.EmbeddedServer | None = self._start()
        log.info(
            "🟥 Embedded Redis on 127.0.0.1:%d, data in %s → ./scripts/redis-cli (its password is in %s)",
            self._port,
            self._folder,
            self._home / connect.URL_FILE,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the workers first: they may have something to release."""
        self._processes.end_all(guard.WORKER)
        self._processes.end_all(guard.SERVER)
        log.info("🟥 Embedded Redis stopped, everything is on disk")

    def check(self) -> None:
        """Restart it if it has died and the delay is over."""
        process = self._running.process if self._running else None
        if process is not None and process.poll() is not None:
            self._processes.forget(process.pid)
            self._running = None
            cause, delay_seconds = describe_exit(process.returncode), self._backoff.note_end()
            log.error("💥 Embedded Redis died (%s); started again in %.0f s", cause, delay_seconds)
        if self._running is None and self._backoff.is_due:
            try:
                self._running = self._start()
                log.info("✅ Embedded Redis is back → 127.0.0.1:%d", self._port)
            except StoreUnreachable as error:
                self._processes.end_all(guard.SERVER)
                log.error("⚠️ %s Trying again in %.0f s.", error, self._backoff.note_end())

    def _start(self) -> embedded.EmbeddedServer:
        self._backoff.note_start()
        keeper = self._processes.keeper(guard.SERVER)
        server = embedded.start(self._folder, self._port, self._password, self._watch_start, keeper)
        connect.write_url(self._home, server.url)
        return server

    def _watch_start(self, process: Process) -> None:
        self._processes.adopt(process, guard.SERVER)
        self._stop.check()
