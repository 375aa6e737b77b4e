"""What the timer sends for a site, and the jobs that work on it, in this process."""

from __future__ import annotations

from collections.abc import Sequence

from core.registry.io.due import DueItems
from core.runtime.context import Context
from core.runtime.job_limit import JobLimit
from core.runtime.job_queues import JobQueues
from core.store import connect
from tests.crawled_site import SID
from workers import item_jobs
from workers.timer import Timer


async def tick(context: Context, *, with_embed: bool = False) -> list[tuple[str, list[object]]]:
    """What the timer sends for what is due; embedding is another matter, unless it is asked for."""
    queues = JobQueues(context.settings)
    sent: list[tuple[str, list[object]]] = []
    enqueue = queues.enqueue

    def note(function: str, *args: object, id_words: object) -> bool:
        sent.append((function.rpartition(".")[2], list(args)))
        return enqueue(function, *args, id_words=id_words)  # type: ignore[arg-type]

    queues.enqueue = note  # type: ignore[method-assign,assignment]
    try:
        await Timer(context.settings, context.client, context.keys, queues).tick()
    finally:
        queues.close()
    return [(name, args) for name, args in sent if with_embed or name != "embed"]


async def make_all_due(context: Context) -> None:
    """Every page of the site is due."""
    now = await connect.now(context.client)
    ids = await context.client.zrange(context.keys.refs(SID), 0, -1)
    await DueItems(context.client, context.keys).make_due(ids, now)


def without_limit() -> JobLimit:
    return JobLimit(float("inf"))


async def send_refresh(context: Context) -> list[list[object]]:
    """The arguments of the refresh jobs that the timer sends."""
    return [args for name, args in await tick(context) if name == "refresh"]


async def work(context: Context, sent: Sequence[Sequence[object]]) -> None:
    """Do these refresh jobs, one after the other."""
    for args in sent:
        await item_jobs.refresh(context, without_limit(), *args)  # type: ignore[arg-type]
