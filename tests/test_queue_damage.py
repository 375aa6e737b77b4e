"""Damage in RQ's own keys: what is of another type is put aside and named, and the workers go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis as sync_redis
from redis.exceptions import ResponseError

from core.errors import StoreUnreachable
from core.keys import Keys
from core.runtime import queue_worker
from core.runtime.job_queues import JobQueues
from core.runtime.queue_names import QueueName, job_id
from core.runtime.queue_worker import QueueUnusable
from core.settings import Settings
from core.store import redis_health, rq_keys
from core.store.embedded import EmbeddedServer
from tests import queue_jobs
from tests.faults.process import Worker
from tests.test_job_queues import NOTE, RUNNER, Paper, burst, client, job_queues, paper

__all__ = ["client", "job_queues", "paper"]  # fixtures

OF_QUEUE = (
    *("rq:queues", "rq:workers", "rq:workers:{queue}", "rq:queue:{queue}", "rq:queue:{queue}:intermediate"),
    *("rq:wip:{queue}", "rq:finished:{queue}", "rq:failed:{queue}", "rq:scheduled:{queue}", "rq:deferred:{queue}"),
)
OF_JOB = ("rq:executions:{job}", "rq:results:{job}", "rq:job:{job}:dependents")
OF_SENT = ("rq:job:{job}", "rq:job:{job}:dependents")


def plant(client: sync_redis.Redis, key: str) -> None:
    """Another type than RQ's."""
    client.delete(key)
    if rq_keys.type_of(key) == "set":
        client.rpush(key, "x")
    else:
        client.sadd(key, "x") if rq_keys.type_of(key) == "string" else client.set(key, "x")


def put_aside(client: sync_redis.Redis, keys: Keys) -> list[str]:
    """Keys that are in the quarantine, as they were called."""
    head = keys.quarantined("")
    return sorted(name.decode()[len(head) :].partition(":")[2] for name in client.zrange(keys.quarantine, 0, -1))


class Deployment:
    """One prefix: its job_queues, and its names."""

    def __init__(self, settings: Settings, prefix: str) -> None:
        self.settings = settings.model_copy(update={"key_prefix": prefix})
        self.keys = Keys.of(self.settings)
        self.job_queues = JobQueues(self.settings, queue_jobs.ALLOWED)

    def name(self, family: str, word: str = "first") -> str:
        return family.format(queue=f"{self.settings.key_prefix}refresh", job=job_id(self.settings, word))

    def send(self, paper: Paper, word: str) -> None:
        assert self.job_queues.enqueue(NOTE, str(paper), word, id_words=[word])


@pytest.fixture(params=["", "a:"], ids=["plain", "prefix"])
def deployment(client: sync_redis.Redis, settings: Settings, request: pytest.FixtureRequest) -> Deployment:
    return Deployment(settings, request.param)


async def run(deployment: Deployment, server: EmbeddedServer, folder: Path, *queues: str) -> Worker:
    return await burst(server, folder, *queues, KEY_PREFIX=deployment.settings.key_prefix)


@pytest.mark.parametrize("family", OF_QUEUE)
async def test_a_queue_key_of_another_type_stops_no_burst(
    deployment: Deployment, client: sync_redis.Redis, server: EmbeddedServer, paper: Paper, tmp_path: Path, family: str
) -> None:
    """Put aside and named, by whoever meets it first; the job is sent, run once, and the burst ends."""
    plant(client, deployment.name(family))
    deployment.send(paper, "first")

    worker = await run(deployment, server, tmp_path, "refresh")

    assert paper.words == ["first"], worker.log
    assert worker.tracebacks == []
    assert deployment.name(family) in put_aside(client, deployment.keys)


@pytest.mark.parametrize("family", OF_JOB)
async def test_a_key_of_a_job_of_another_type_stops_no_burst(
    deployment: Deployment, client: sync_redis.Redis, server: EmbeddedServer, paper: Paper, tmp_path: Path, family: str
) -> None:
    """The job has run once and the next one too; the key is put aside and named."""
    deployment.send(paper, "first")
    plant(client, deployment.name(family))
    deployment.send(paper, "next")

    worker = await run(deployment, server, tmp_path, "refresh")

    assert sorted(paper.words) == ["first", "next"], worker.log
    assert worker.tracebacks == []
    assert worker.lines(f"→ {deployment.name(family)}")
    assert deployment.name(family) in put_aside(client, deployment.keys)


async def test_what_becomes_damaged_after_a_job_was_sent_is_put_aside(
    deployment: Deployment, client: sync_redis.Redis, server: EmbeddedServer, paper: Paper, tmp_path: Path
) -> None:
    """All registries at once, in a worker of three queues; each is named in one line."""
    families = [family for family in OF_QUEUE if family not in ("rq:queue:{queue}", "rq:queue:{queue}:intermediate")]
    deployment.send(paper, "first")
    for family in families:
        plant(client, deployment.name(family))

    worker = await run(deployment, server, tmp_path)

    assert paper.words == ["first"], worker.log
    for name in map(deployment.name, families):
        assert len([line for line in worker.lines("Put aside") if line.endswith(f"→ {name}")]) == 1, worker.log


async def test_a_job_of_another_type_is_put_aside(
    deployment: Deployment, client: sync_redis.Redis, server: EmbeddedServer, paper: Paper, tmp_path: Path
) -> None:
    """One that was to be run, and one that was to be tried again: the next job runs, and their ids can be sent."""
    for word in ("first", "again", "next"):
        deployment.send(paper, word)
    queue, again = deployment.name("rq:queue:{queue}"), job_id(deployment.settings, "again")
    client.lrem(queue, 0, again)
    client.zadd(deployment.name("rq:scheduled:{queue}"), {again: 1})
    damaged = [deployment.name("rq:job:{job}", word) for word in ("first", "again")]
    for name in damaged:
        plant(client, name)

    worker = await run(deployment, server, tmp_path, "refresh")

    assert paper.words == ["next"], worker.log
    assert put_aside(client, deployment.keys) == sorted(damaged)
    deployment.send(paper, "first")


@pytest.mark.parametrize("family", OF_SENT)
def test_sending_deletes_nothing_of_another_type(
    deployment: Deployment, client: sync_redis.Redis, paper: Paper, family: str
) -> None:
    """What is in a job's place is put aside, not overwritten."""
    plant(client, deployment.name(family))

    deployment.send(paper, "first")

    assert put_aside(client, deployment.keys) == [deployment.name(family)]
    assert client.llen(deployment.name("rq:queue:{queue}")) == 1


async def test_a_maintenance_lock_without_an_end_ends(
    job_queues: JobQueues, client: sync_redis.Redis, server: EmbeddedServer, paper: Paper, tmp_path: Path
) -> None:
    """Whatever its type: the job of a dead worker comes back all the same."""
    job_queues.enqueue(NOTE, str(paper), "back", id_words=["lost"])
    client.delete("rq:queue:refresh")
    client.zadd("rq:wip:refresh", {"lost:0123abcd": 1})
    client.sadd("rq:clean_registries:refresh", "x")

    with Worker(tmp_path, server.url, RUNNER, "refresh") as worker:
        await worker.until(lambda: "back" in paper.words)

    assert paper.words == ["back"]


@pytest.mark.parametrize("queues", [("refresh",), ()], ids=["one", "three"])
async def test_an_id_that_is_no_text_is_one_line(
    job_queues: JobQueues, client: sync_redis.Redis, server: EmbeddedServer, paper: Paper, tmp_path: Path, queues: Any
) -> None:
    """Dropped and named, without a traceback; the next job runs."""
    client.rpush("rq:queue:refresh", b"\xff\x00")
    job_queues.enqueue(NOTE, str(paper), "next", id_words=["next"])

    worker = await burst(server, tmp_path, *queues)

    assert paper.words == ["next"], worker.log
    assert len(worker.lines("Dropped b'\\xff\\x00' from rq:queue:refresh")) == 1, worker.log
    assert worker.tracebacks == []
    assert client.llen("rq:queue:refresh:intermediate") == 0


def failing(error: Exception) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize("error", [ResponseError("OOM"), ValueError("odd")], ids=["redis", "other"])
def test_a_burst_ends_whatever_happens(
    job_queues: JobQueues, settings: Settings, paper: Paper, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """A job that can be taken and never begun ends the burst with a sentence, not in a loop."""
    monkeypatch.setattr(queue_worker, "PAUSE_SECONDS", 0)
    monkeypatch.setattr(redis_health, "ONCE_WAIT_SECONDS", 0.01)
    job_queues.enqueue(NOTE, str(paper), "first", id_words=["first"])
    worker = queue_worker.QueueWorker(settings, [QueueName.REFRESH], queue_jobs.ALLOWED)
    monkeypatch.setattr(worker, "_install_signal_handlers", lambda: None)
    monkeypatch.setattr(worker, "_run" if isinstance(error, ValueError) else "prepare_execution", failing(error))
    if isinstance(error, ValueError):
        monkeypatch.setattr(worker, "_maintain", failing(error))

    with pytest.raises((QueueUnusable, StoreUnreachable)):
        worker.serve(burst=True)
