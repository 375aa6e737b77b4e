"""Ask something of a run while it works, and wait until its worker has heard of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from core.runs.io.run_worker import RunWorker
from core.runs.run import Run, RunKind
from core.runs.run_request import RunReply
from core.runtime.context import Context
from core.store import connect


async def runs_of(context: Context, kind: RunKind) -> list[Run]:
    """The runs of a kind, newest first."""
    return await context.runs.newest(10, await connect.now(context.client), kind=kind)


async def ask(run: Run, request: Callable[[str], Awaitable[Run]]) -> None:
    """Ask for a pause or a cancel, and return when the worker, which is in this process, stops because of it."""
    # The heartbeat in the store would be too early: it is there before the worker has read its reply.
    has_heard, obey = asyncio.Event(), RunWorker._obey

    def listen(worker: RunWorker, reply: RunReply) -> None:
        obey(worker, reply)
        if worker.run.id == run.id and worker.should_stop():
            has_heard.set()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(RunWorker, "_obey", listen)
        await request(run.id)
        await has_heard.wait()
