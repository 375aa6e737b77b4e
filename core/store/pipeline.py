"""Read many keys in one round trip."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from core.store.commit import Command
from core.store.connect import Client


async def read_many(client: Client, commands: Iterable[Command]) -> list[Any]:
    """Return the replies to these commands, sent together and without a transaction; no commands, no round trip."""
    pipe = client.pipeline(transaction=False)
    for command in commands:
        pipe.execute_command(*command)
    return await pipe.execute() if len(pipe) else []
