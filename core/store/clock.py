"""The clock of the Redis server, since hosts may disagree about the time."""

from __future__ import annotations

import time

from core.store import connect
from core.value_class import value_class


@value_class
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
