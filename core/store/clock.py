"""The server's clock: hosts may disagree about the time, the server has one."""

from __future__ import annotations

import time
from dataclasses import dataclass

from core.store import connect


@dataclass(frozen=True, slots=True)
class ServerClock:
    """Redis TIME, asked once and carried on by our monotonic clock."""

    server_ts: float
    asked_at: float

    @classmethod
    async def ask(cls, client: connect.Client) -> ServerClock:
        """Ask the server what time it is."""
        return cls(await connect.now(client), time.monotonic())

    def now(self) -> float:
        """Epoch seconds by the server's clock."""
        return self.server_ts + time.monotonic() - self.asked_at
