"""Know when `./scripts/up` has to end: a signal, a closed terminal, or nobody who reads what it prints."""

from __future__ import annotations

import asyncio
import select
import signal
import sys
import time

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
POLL_SECONDS = 0.1


class Stopped(Exception):
    """Somebody wants `up` to end."""


class Stop:
    """Signals only leave a mark, so that nothing is cut off in the middle; whoever waits looks at it."""

    def __init__(self) -> None:
        self._is_asked = False
        self._readers = select.poll()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                self._readers.register(stream.fileno(), 0)  # nothing but the news that the other end is closed

    def listen(self) -> None:
        """Take the signals of this process."""
        for number in SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # `nohup` means it
                signal.signal(number, self._ask)

    def _ask(self, *_: object) -> None:
        self._is_asked = True

    def check(self) -> None:
        """Raise `Stopped` if it is time to end."""
        # `up | head -1`: the reader is gone. A closed terminal looks the same.
        if any(event & (select.POLLERR | select.POLLHUP) for _, event in self._readers.poll(0)):
            self._is_asked = True
        if self._is_asked:
            raise Stopped

    def pause(self, seconds: float = POLL_SECONDS) -> None:
        """Sleep; raises `Stopped` soon after it is time to end."""
        deadline = time.monotonic() + seconds
        while True:
            self.check()
            left = deadline - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, POLL_SECONDS))

    async def sleep(self, seconds: float) -> None:
        """The same in asyncio."""
        for _ in range(max(int(seconds / POLL_SECONDS), 1)):
            self.check()
            await asyncio.sleep(POLL_SECONDS)
