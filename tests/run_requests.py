"""Ask something of a run while it works, and wait until its worker has heard of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from core.runs.run import Run, RunKind
from core.runtime.context import Context
from core.store import connect


async def runs_of(context: Context, kind: RunKind) -> list[Run]:
    """The runs of a kind, newest first."""
    return await context.runs.newest(10, await connect.now(context.client), kind=kind)


async def ask(context: Context, run: Run, request: Callable[[str], Awaitable[Run]]) -> None:
    """Ask, for instance for a pause, and return after the next heartbeat of the run."""
    await request(run.id)
    asked_ts = await connect.now(context.client)
    while True:
        seen = await context.runs.require(run.id, asked_ts)
        if seen.heartbeat_ts > asked_ts:
            return
        await asyncio.sleep(0.01)
