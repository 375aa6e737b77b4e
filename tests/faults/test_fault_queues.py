"""Workers of the queues: killed with and without their child, stopped, cut off from the server (findings 2 and 3)."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import redis as sync_redis
from rq.job import Job
from rq.serializers import JSONSerializer

from core.runtime.job_queues import JobQueues
from core.runtime.queue_names import QueueName
from core.secret_text import SecretStr
from core.settings import Settings
from core.store import connect, embedded
from core.store.embedded import EmbeddedServer
from tests import ports, queue_jobs
from tests.faults import process
from tests.faults.process import Worker

RUNNER = "tests.queue_jobs"


@pytest.fixture
def client(settings: Settings) -> Iterator[sync_redis.Redis]:
    opened = connect.open_queue(settings)
    opened.flushall()
    yield opened
    opened.close()


class Bench:
    """A job that holds until it is let go, and the lines it leaves."""

    def __init__(self, folder: Path, url: str, job_queues: JobQueues) -> None:
        self.folder, self.url, self.job_queues = folder, url, job_queues
        self.paper, self.go = folder / "paper", folder / "go"

    def send(self, function: str, id_word: str = "held") -> bool:
        return self.job_queues.enqueue(f"{RUNNER}.{function}", str(self.paper), str(self.go), id_words=[id_word])

    def worker(self, *queues: str) -> Worker:
        return Worker(self.folder, self.url, RUNNER, *(queues or ("refresh", "reindex")))

    def lines(self, word: str) -> list[str]:
        text = self.paper.read_text() if self.paper.exists() else ""
        return [line for line in text.splitlines() if line.startswith(word)]

    def horse(self) -> psutil.Process:
        """The child that runs the job, as it says itself."""
        return psutil.Process(int(self.lines("started")[-1].rpartition("=")[2]))


@pytest.fixture
def bench(client: sync_redis.Redis, settings: Settings, server: EmbeddedServer, tmp_path: Path) -> Iterator[Bench]:
    job_queues = JobQueues(settings, queue_jobs.ALLOWED)
    opened = Bench(tmp_path, server.url, job_queues)
    yield opened
    opened.go.touch()  # whatever was left alone ends by itself
    job_queues.close()


def retries_left(client: sync_redis.Redis) -> int | None:
    return Job.fetch("held", connection=client, serializer=JSONSerializer).retries_left


@pytest.mark.parametrize("with_child", [False, True], ids=["worker alone", "worker and child"])
@pytest.mark.parametrize("queues", [("refresh",), ("refresh", "reindex")], ids=["one queue", "two queues"])
async def test_a_killed_workers_job_is_run_by_another(
    bench: Bench, client: sync_redis.Redis, with_child: bool, queues: tuple[str, ...]
) -> None:
    """kill -9: another worker takes the job over."""
    bench.send("hold")
    with bench.worker(*queues) as first:
        await first.until(lambda: bool(bench.lines("started")))
        horse = bench.horse()
        first.kill()
        if with_child:
            horse.kill()
    await process.until(lambda: process.is_dead(horse) is with_child)
    assert not bench.send("hold"), "it counts as running until it is taken over"

    with bench.worker(*queues) as second:
        await second.until(lambda: len(bench.lines("started")) == 2)
        assert second.lines("lost its worker")
        bench.go.touch()
        await second.until(lambda: client.hget("rq:job:held", "status") == b"finished")
        assert await second.stopped() == 0


async def test_a_busy_worker_finds_the_jobs_of_dead_ones(bench: Bench, client: sync_redis.Redis) -> None:
    """Also while it runs a long job itself: the lost one waits in its queue again."""
    bench.send("hold", "lost")
    with bench.worker() as first:
        await first.until(lambda: bool(bench.lines("started")))
        horse = bench.horse()
        bench.send("hold", "long")
        with bench.worker() as second:
            await second.until(lambda: len(bench.lines("started")) == 2)
            first.kill()
            horse.kill()
            await second.until(lambda: bench.job_queues.count_waiting(QueueName.REFRESH) == 1)
            assert len(bench.lines("started")) == 2
            assert second.lines("tests.queue_jobs.hold (lost) lost its worker")
            bench.go.touch()
            await second.until(lambda: len(bench.lines("ended")) == 2)


async def test_a_killed_worker_leaves_no_process_behind(bench: Bench) -> None:
    """kill -9 of the worker and its child: nothing of it is left, as RQ's own scheduler would be."""
    bench.send("hold")
    with bench.worker() as worker:
        await worker.until(lambda: bool(bench.lines("started")))
        children, horse = worker.children(), bench.horse()

        assert children == [horse]


async def test_a_job_whose_child_dies_is_tried_again_and_then_given_up(bench: Bench, client: sync_redis.Redis) -> None:
    """A job that kills its process does so as often as it may, and no more; the worker lives."""
    # A name of its own: the child of an earlier test may still be ending under the other.
    bench.job_queues.enqueue(f"{RUNNER}.die", str(bench.paper), id_words=["doomed"])
    with bench.worker() as worker:
        await worker.until(lambda: client.hget("rq:job:doomed", "status") == b"failed")
        assert len(bench.lines("dying")) == 3
        assert len(worker.lines("its process died (signal 9)")) == 3
        assert await worker.stopped() == 0


# ── stopping ──


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_stop_lets_the_job_end_itself(bench: Bench, client: sync_redis.Redis, number: signal.Signals) -> None:
    """The child gets SIGTERM although it is in a group of its own; it ends early, well, and so does the worker."""
    bench.send("hold_politely")
    with bench.worker() as worker:
        await worker.until(lambda: bool(bench.lines("started")))
        horse = bench.horse()
        worker.signal(number)
        assert await worker.ended() == 0
    assert process.is_dead(horse)
    assert len(bench.lines("stopped")) == 1
    assert client.hget("rq:job:held", "status") == b"finished"
    assert worker.tracebacks == []


@pytest.mark.parametrize("queues", [("refresh",), ("refresh", "reindex")], ids=["one queue", "two queues"])
async def test_a_stopped_job_without_a_handler_is_back_at_once(
    bench: Bench, client: sync_redis.Redis, queues: tuple[str, ...]
) -> None:
    """SIGTERM ends its child; the job waits in its queue when the worker is gone, and no attempt is counted."""
    bench.send("hold")
    with bench.worker(*queues) as worker:
        await worker.until(lambda: bool(bench.lines("started")))
        assert await worker.stopped() == 0
    assert (bench.job_queues.count_waiting(QueueName.REFRESH), retries_left(client)) == (1, len(queue_jobs.RETRIES))
    assert worker.lines("goes back to its queue")

    bench.go.touch()
    with bench.worker(*queues) as second:
        await second.until(lambda: bool(bench.lines("ended")))


async def test_a_deaf_job_is_ended_when_patience_is(bench: Bench, client: sync_redis.Redis) -> None:
    """A job that does not listen is killed before honcho would kill us, and goes back to its queue."""
    bench.send("hold_on")
    with bench.worker() as worker:
        await worker.until(lambda: bool(bench.lines("started")))
        horse, asked_at = bench.horse(), time.monotonic()
        assert await worker.stopped() == 0
        assert time.monotonic() - asked_at > queue_jobs.QUICK.patience
    assert process.is_dead(horse)
    assert (bench.job_queues.count_waiting(QueueName.REFRESH), retries_left(client)) == (1, len(queue_jobs.RETRIES))


async def test_a_second_signal_ends_at_once(bench: Bench) -> None:
    """After the first second a second signal takes worker and child down; the job comes back later."""
    bench.send("hold_on")
    with bench.worker() as worker:
        await worker.until(lambda: bool(bench.lines("started")))
        horse, asked_at = bench.horse(), time.monotonic()
        worker.signal(signal.SIGTERM)
        await process.until(lambda: time.monotonic() - asked_at > 1.1)
        worker.signal(signal.SIGTERM)
        await worker.ended()
    assert process.is_dead(horse)
    bench.go.touch()
    with bench.worker() as second:
        await second.until(lambda: bool(bench.lines("ended")))


async def test_an_idle_worker_stops_in_seconds(bench: Bench) -> None:
    """Nothing to do and told to stop: it does, with exit code 0."""
    with bench.worker() as worker:
        await worker.until(lambda: bool(worker.lines("Waiting for jobs")))
        assert await worker.stopped() == 0
    assert worker.lines("Stopped after 0 jobs")


# ── the server ──


async def test_a_server_that_goes_and_comes_back(tmp_path: Path) -> None:
    """Idle or with a job: the worker says so once, waits, and works again. Nobody starts it anew."""
    server = embedded.start(tmp_path / "server", ports.take())
    port = server.port
    settings = Settings(redis_url=SecretStr(server.url), persistent_storage_path=tmp_path)
    job_queues = JobQueues(settings, queue_jobs.ALLOWED)
    bench = Bench(tmp_path, server.url, job_queues)
    try:
        with bench.worker() as worker:
            await worker.until(lambda: bool(worker.lines("Waiting for jobs")))
            server.stop()
            await worker.until(lambda: len(worker.lines("does not answer")) == 1)
            server = embedded.start(tmp_path / "server", port)
            await worker.until(lambda: len(worker.lines("Redis is back")) == 1)

            bench.send("hold")
            await worker.until(lambda: len(bench.lines("started")) == 1)
            server.stop()
            await worker.until(lambda: len(worker.lines("does not answer")) == 2)
            bench.go.touch()
            horse = bench.horse()
            await worker.until(lambda: process.is_dead(horse))  # it could not say that it was done
            server = embedded.start(tmp_path / "server", port)
            await worker.until(lambda: len(worker.lines("Redis is back")) == 2)
            await worker.until(lambda: len(bench.lines("ended")) == 2)
            assert await worker.stopped() == 0
            assert worker.tracebacks == []
    finally:
        job_queues.close()
        server.stop()


async def test_every_key_of_rq_may_be_deleted(bench: Bench, client: sync_redis.Redis) -> None:
    """A worker goes on without any of them, and what is sent again is run: RQ is only a wake-up."""
    with bench.worker() as worker:
        await worker.until(lambda: bool(worker.lines("Waiting for jobs")))
        bench.send("hold")
        await worker.until(lambda: bool(bench.lines("started")))
        client.delete(*client.keys("rq:*"))
        bench.go.touch()
        await worker.until(lambda: bool(bench.lines("ended")))
        bench.send("hold", "next")
        await worker.until(lambda: len(bench.lines("ended")) >= 2)
        client.delete(*client.keys("rq:*"))
        bench.send("hold", "last")
        await worker.until(lambda: len(bench.lines("ended")) >= 3)
        assert await worker.stopped() == 0
