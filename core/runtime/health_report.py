"""Decide whether the deployment is healthy: the store, the processes, the workers, and how late they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import StrEnum

from core.registry.io.backlog import Backlog
from core.runs.run import RunKind
from core.runtime.process_beats import ALIVE_SECONDS, INGESTOR, TIMER, WEBHOOKS
from core.runtime.queue_monitor import QueueState
from core.runtime.queue_names import QueueName
from core.settings import VERSION
from core.value_class import value_class

LATE_SECONDS = 900.0
"""What has been due for longer, with nobody alive who could do it, is not served: then the deployment is down."""


class HealthStatus(StrEnum):
    """Health of the deployment."""

    OK = "ok"
    DEGRADED = "degraded"
    """Something is missing, and nothing is late because of it."""
    DOWN = "down"
    """The store does not answer, or work is overdue and nobody does it."""


@value_class
class HealthReport:
    """Health of the deployment. Anyone may read it, so it names no host, URL or item."""

    status: HealthStatus
    """ok; degraded: something is missing; down: nothing works, or work is late"""
    problems: tuple[str, ...] = ()
    """A sentence each."""
    version: str = VERSION
    server: bool = True
    """Whether Redis answers."""
    workers: Mapping[str, int] = field(default_factory=dict)
    """Live RQ workers by queue."""
    workers_alive: int = 0
    processes: Mapping[str, bool] = field(default_factory=dict)
    """Whether the ingestor, the timer and the webhook sender have a heartbeat."""
    lag_seconds: float = 0.0
    """How long the oldest due item or feed has been overdue."""
    due_items: int = 0
    feeds_due: int = 0
    embed_waiting: int = 0
    paused_kinds: tuple[str, ...] = ()
    """Kinds of runs that someone paused as a whole, or whose only run someone paused: nothing of them is done."""
    paused_scopes: int = 0
    """Everything that is paused: kinds, domains, sources."""


def unreachable(sentence: str) -> HealthReport:
    """Return the report while the store does not answer."""
    return HealthReport(HealthStatus.DOWN, (sentence,), server=False)


@value_class
class Needs:
    feeds: bool = False
    webhooks: bool = False


def judge(backlog: Backlog, queues: QueueState, beats: Mapping[str, float], needs: Needs, now: float) -> HealthReport:
    processes = {name: now - beats.get(name, 0.0) < ALIVE_SECONDS for name in (INGESTOR, TIMER, WEBHOOKS)}
    problems = list(_problems(backlog, queues, processes, needs))
    lag = max(backlog.lag_seconds, backlog.feed_lag_seconds)
    status = HealthStatus.OK
    if problems:
        status = HealthStatus.DOWN if any(is_stuck for _, is_stuck in problems) else HealthStatus.DEGRADED
    return HealthReport(
        status,
        tuple(sentence for sentence, _ in problems),
        workers=queues.workers,
        workers_alive=len(queues.live),
        processes=processes,
        lag_seconds=round(lag, 1),
        due_items=backlog.due_items,
        feeds_due=backlog.feeds_due,
        embed_waiting=backlog.embed_waiting,
        paused_kinds=tuple(sorted(backlog.paused & set(map(str, RunKind)))),
        paused_scopes=len(backlog.paused),
    )


def _problems(
    backlog: Backlog, queues: QueueState, processes: Mapping[str, bool], needs: Needs
) -> Iterator[tuple[str, bool]]:
    """Yield what is wrong, and whether work is late because of it."""
    are_items_late = backlog.lag_seconds > LATE_SECONDS
    if not processes[TIMER]:
        yield "The timer has no heartbeat: nothing that is due is sent to the workers.", are_items_late
    if needs.feeds and not processes[INGESTOR]:
        yield "The ingestor has no heartbeat: no feed is polled.", backlog.feed_lag_seconds > LATE_SECONDS
    if needs.webhooks and not processes[WEBHOOKS]:
        yield "The webhook sender has no heartbeat: no event is delivered to webhooks.", False
    if not queues.is_reachable:
        yield "The queues' server (QUEUE_REDIS_URL) does not answer.", are_items_late
    for queue in QueueName if queues.is_reachable else ():
        if not queues.workers.get(str(queue)):
            is_stuck = are_items_late and queue is QueueName.REFRESH
            yield f"No worker is alive on the queue {queue}.", is_stuck
    if backlog.embed_paused:
        yield f"Nothing is embedded now: {backlog.embed_paused}", False
