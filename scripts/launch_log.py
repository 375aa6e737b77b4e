"""Log lines of `./scripts/up` in a thread of their own: a reader that stands still must not keep `up` from ending."""

from __future__ import annotations

import logging
import queue
import threading
import time
from logging.handlers import QueueHandler

POLL_SECONDS = 0.02


class BackgroundLog:
    """Takes the place of the root logger's handlers and hands every record on to them."""

    def __init__(self) -> None:
        self._records: queue.Queue[logging.LogRecord] = queue.Queue()
        root = logging.getLogger()
        self._handlers = list(root.handlers)
        root.handlers[:] = [QueueHandler(self._records)]
        threading.Thread(target=self._write, daemon=True).start()

    def _write(self) -> None:
        while True:
            record = self._records.get()
            for handler in self._handlers:
                handler.handle(record)
            self._records.task_done()

    def is_written(self, within_seconds: float) -> bool:
        """Wait until everything is written; False if nobody takes it."""
        deadline = time.monotonic() + within_seconds
        while self._records.unfinished_tasks:
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True
