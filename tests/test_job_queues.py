"""Queues: what may be sent and run, under which names, and once at a time."""

from __future__ import annotations

import asyncio
import logging
import pickle
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path

import pytest
import redis as sync_redis
from rq import Queue, Repeat, Retry
from rq.job import Callback, Job, JobStatus, validate_job_id
from rq.serializers import JSONSerializer

from core.runtime import job_specs
from core.runtime.forking_worker import WorkerTiming
from core.runtime.job_queues import JobQueues
from core.runtime.job_specs import ALLOWED_JOBS, JobRefused, JobSpec
from core.runtime.queue_names import QueueName, job_id, rq_queue_name
from core.runtime.queue_worker import QueueWorker
from core.settings import Settings
from core.store import connect
from core.store.embedded import EmbeddedServer
from tests import commands, queue_jobs
from tests.faults.process import ROOT, Worker
from workers.__main__ import main

RUNNER = "tests.queue_jobs"
NOTE = f"{RUNNER}.note"


@pytest.fixture
def client(settings: Settings) -> Iterator[sync_redis.Redis]:
    """RQ's own client on the empty server."""
    opened = connect.open_queue(settings)
    opened.flushall()
    yield opened
    opened.close()


@pytest.fixture
def job_queues(settings: Settings, client: sync_redis.Redis) -> Iterator[JobQueues]:
    opened = JobQueues(settings, queue_jobs.ALLOWED)
    yield opened
    opened.close()


@pytest.fixture
def stranger(client: sync_redis.Redis) -> Callable[..., Queue]:
    """Plain RQ, as anybody may use it who can write to Redis."""

    def plain(serializer: object = JSONSerializer) -> Queue:
        return Queue("refresh", connection=client, serializer=serializer)  # type: ignore[arg-type]

    return plain


class Paper:
    """Where jobs leave their lines."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __str__(self) -> str:
        return str(self._path)

    @property
    def lines(self) -> list[str]:
        return self._path.read_text().splitlines() if self._path.exists() else []

    @property
    def words(self) -> list[str]:
        return [line.split()[0] for line in self.lines]


@pytest.fixture
def paper(tmp_path: Path) -> Paper:
    return Paper(tmp_path / "paper")


async def burst(server: EmbeddedServer, folder: Path, *queues: str, **environment: str) -> Worker:
    """A worker's run until nothing waits."""
    with Worker(folder, server.url, RUNNER, *(queues or tuple(QueueName)), "--burst", **environment) as worker:
        assert await worker.ended() == 0, worker.log
    return worker


def status(client: sync_redis.Redis, id: str) -> JobStatus:
    return Job.fetch(id, connection=client, serializer=JSONSerializer).get_status()


# ── names ──


def test_a_prefix_is_in_every_name() -> None:
    """Two deployments on one server have neither a queue nor a job in common."""
    one, other = Settings(key_prefix="a:"), Settings(key_prefix="a_")

    assert rq_queue_name(one, QueueName.REFRESH) == "a:refresh"
    assert job_id(one, "crawl", "x") != job_id(other, "crawl", "x")
    assert job_id(Settings(key_prefix="a"), "b") != job_id(Settings(), "a", "b")


@pytest.mark.parametrize("words", [("crawl", "rss"), ("crawl", "kb:é/1"), ("",), ("a b",), ("x" * 300 + ":",)])
@pytest.mark.parametrize("prefix", ["", "a", "{a}:", "ä ö"])
def test_a_job_id_is_one_that_rq_takes(prefix: str, words: tuple[str, ...]) -> None:
    """Letters, digits, `_` and `-`, whatever it is made of."""
    made = job_id(Settings(key_prefix=prefix), *words)

    validate_job_id(made)
    assert re.fullmatch(r"[\w-]+", made, re.ASCII)


def test_different_words_make_different_ids() -> None:
    """Characters that RQ does not take are not just dropped."""
    assert len({job_id(Settings(), word) for word in ("a:b", "a/b", "a_b", "ab")}) == 4


# ── what may run ──


def test_a_killed_workers_job_is_back_within_two_minutes() -> None:
    """The constants of production add up, for every function of the list."""
    assert all(queue_jobs.back_within(WorkerTiming(), spec.retry_seconds[0]) < 120 for spec in ALLOWED_JOBS.values())


def test_every_function_of_the_list_is_retried_and_limited() -> None:
    """No function without Retry and without a timeout."""
    assert all(spec.retry_seconds and 0 < spec.timeout_seconds <= 3_600 for spec in ALLOWED_JOBS.values())


def test_the_list_names_functions_that_exist() -> None:
    """Every name on the list can be called."""
    found = {name: name.rpartition(".") for name in ALLOWED_JOBS}

    assert [n for n, (path, _, f) in found.items() if not callable(getattr(import_module(path), f, None))] == []


def test_only_listed_functions_can_be_sent(job_queues: JobQueues) -> None:
    """A foreign function is refused where it is sent, and nothing is queued."""
    with pytest.raises(JobRefused, match=r"'os\.system' is not one of the functions that may run: "):
        job_queues.enqueue("os.system", "true", id_words=["x"])

    assert job_queues.count_waiting(QueueName.REFRESH) == 0


def test_only_json_can_be_sent(job_queues: JobQueues) -> None:
    """An argument that is no JSON is refused where it is sent."""
    with pytest.raises(JobRefused, match="not JSON"):
        job_queues.enqueue(NOTE, Path(), id_words=["x"])  # type: ignore[arg-type]


def test_callbacks_cannot_be_sent(client: sync_redis.Redis) -> None:
    """A callback is a function too."""
    with pytest.raises(JobRefused, match="callbacks"):
        job_specs.job_class(queue_jobs.ALLOWED).create(NOTE, connection=client, on_failure=Callback("os.system"))


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff",
        b"{}",
        b'"text"',
        b'["tests.queue_jobs.note", {"a": 1}, [], {}]',
        b'["tests.queue_jobs.note", null, "path", {}]',
        b'["tests.queue_jobs.note", null, [], []]',
        b'[["tests.queue_jobs.note"], null, [], {}]',
        b'["tests.queue_jobs.note.__call__", null, [], {}]',
        b"[" * 100_000,
    ],
    ids=lambda payload: repr(payload[:40]),
)
def test_no_payload_gets_past_the_list(client: sync_redis.Redis, payload: bytes) -> None:
    """Whatever bytes are in a job's hash, it is read without harm and its function is not reached."""
    client.hset("rq:job:x", mapping={"data": payload, "status": "queued", "retries_left": 3})

    job = job_specs.job_class(queue_jobs.ALLOWED).fetch("x", connection=client)

    assert not job.should_retry
    with pytest.raises(JobRefused):
        _ = job.func


# ── sending ──


def test_a_job_waits_with_retry_timeout_and_an_end(
    job_queues: JobQueues, client: sync_redis.Redis, paper: Paper
) -> None:
    """Every job that is sent has Retry, its timeout, and lives for ever only while it waits."""
    assert job_queues.enqueue(NOTE, str(paper), id_words=["note", "1"])

    job = Job.fetch("note-1", connection=client, serializer=JSONSerializer)
    spec = queue_jobs.ALLOWED[NOTE]
    assert (job.retries_left, job.retry_intervals, job.timeout) == (2, [1, 1], spec.timeout_seconds)
    assert (job.result_ttl, job.failure_ttl, job.ttl) == (60, 86_400, None)
    assert client.ttl(job.key) == -1
    assert (job_queues.count_waiting(QueueName.REFRESH), job_queues.count_waiting(QueueName.REINDEX)) == (1, 0)
    assert [queue.name for queue in Queue.all(connection=client)] == ["refresh"]


def test_a_waiting_job_is_not_sent_again(job_queues: JobQueues, paper: Paper) -> None:
    """One id, one job, also from many threads at once."""
    with ThreadPoolExecutor(8) as threads:
        sent = list(threads.map(lambda _: job_queues.enqueue(NOTE, str(paper), id_words=["note"]), range(40)))

    assert (sent.count(True), job_queues.count_waiting(QueueName.REFRESH)) == (1, 1)


@pytest.mark.parametrize(
    ("place", "member"),
    [("rq:scheduled:refresh", "note"), ("rq:deferred:refresh", "note"), ("rq:wip:refresh", "note:0123abcd")],
)
def test_a_job_that_runs_or_is_to_be_tried_again_is_not_sent(
    job_queues: JobQueues, client: sync_redis.Redis, paper: Paper, place: str, member: str
) -> None:
    """Scheduled, deferred or started is as good as queued."""
    job_queues.enqueue(NOTE, str(paper), id_words=["note"])
    client.delete("rq:queue:refresh")
    client.zadd(place, {member: 2e9})

    assert not job_queues.enqueue(NOTE, str(paper), id_words=["note"])


def test_a_job_that_was_lost_does_not_block_its_id(
    job_queues: JobQueues, client: sync_redis.Redis, paper: Paper
) -> None:
    """A hash that says `queued` while no queue has it (its worker was killed on taking it) is replaced."""
    job_queues.enqueue(NOTE, str(paper), id_words=["note"])
    client.delete("rq:queue:refresh")

    assert job_queues.enqueue(NOTE, str(paper), id_words=["note"])
    assert job_queues.count_waiting(QueueName.REFRESH) == 1


# ── running ──


async def test_each_queue_is_run(job_queues: JobQueues, server: EmbeddedServer, paper: Paper, tmp_path: Path) -> None:
    """A burst runs what waits in all its queues, in children of its own but for embed, and ends."""
    for function in ("note", "note_reindex", "note_embed"):
        assert job_queues.enqueue(f"{RUNNER}.{function}", str(paper), function, id_words=[function])

    worker = await burst(server, tmp_path)

    lines = [line.split(" pid=") for line in paper.lines]
    assert sorted(words for words, _ in lines) == ["note", "note_embed", "note_reindex"]
    assert [words for words, pid in lines if pid == str(worker.process.pid)] == ["note_embed"]
    assert worker.lines("Nothing waits after 2 jobs")
    assert worker.lines("Nothing waits after 1 jobs")
    assert worker.tracebacks == worker.lines("[rq") == []


async def test_a_worker_leaves_other_queues_alone(
    job_queues: JobQueues, server: EmbeddedServer, paper: Paper, tmp_path: Path
) -> None:
    """Only the queues of the command line are worked on."""
    job_queues.enqueue(NOTE, str(paper), id_words=["note"])

    await burst(server, tmp_path, "reindex")

    assert paper.lines == []
    assert job_queues.count_waiting(QueueName.REFRESH) == 1


async def test_a_foreign_function_never_runs(
    job_queues: JobQueues,
    stranger: Callable[..., Queue],
    client: sync_redis.Redis,
    server: EmbeddedServer,
    paper: Paper,
    tmp_path: Path,
) -> None:
    """`os.system` by plain RQ: failed at once in spite of its retries, logged, not run; the next job runs."""
    marker = tmp_path / "marker"
    job = stranger().enqueue("os.system", f"touch {marker}", retry=Retry(3))
    job_queues.enqueue(NOTE, str(paper), "next", id_words=["next"])

    worker = await burst(server, tmp_path)

    assert not marker.exists()
    assert status(client, job.id) is JobStatus.FAILED
    assert 0 < client.ttl(job.key) <= job_specs.FAILURE_SECONDS
    assert worker.lines("[queue] 🚫 Refused job")
    assert "next" in paper.words


class Trap:
    """Opened as a pickle, it runs a command."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[object, ...]:
        return (subprocess.check_call, (["touch", self.command],))


@pytest.mark.parametrize("queues", [("refresh",), ("refresh", "reindex")], ids=["one queue", "two queues"])
async def test_a_pickle_is_never_opened(
    job_queues: JobQueues,
    stranger: Callable[..., Queue],
    client: sync_redis.Redis,
    server: EmbeddedServer,
    paper: Paper,
    tmp_path: Path,
    queues: tuple[str, ...],
) -> None:
    """A pickle in the payload, in `meta` and in `result`: failed, logged, not opened; the next job runs."""
    marker = tmp_path / "marker"
    bomb = pickle.dumps(Trap(str(marker)))
    job = stranger(pickle).enqueue(NOTE, str(marker))
    client.hset(job.key, mapping={"data": bomb, "meta": bomb, "result": bomb})
    job_queues.enqueue(NOTE, str(paper), "next", id_words=["next"])

    worker = await burst(server, tmp_path, *queues)

    assert not marker.exists()
    assert client.hget(job.key, "status") == b"failed"
    assert worker.lines("its payload is not JSON")
    assert "next" in paper.words
    assert client.llen("rq:queue:refresh:intermediate") == 0


async def test_a_listed_function_with_foreign_callbacks_does_not_run(
    stranger: Callable[..., Queue], server: EmbeddedServer, paper: Paper, tmp_path: Path
) -> None:
    """The function is ours, its callback is not: neither runs."""
    for number, when in enumerate(("on_success", "on_failure")):
        stranger().enqueue(NOTE, str(paper), **{when: Callback("tests.queue_jobs.note")}, job_id=f"x{number}")

    worker = await burst(server, tmp_path)

    assert paper.lines == []
    assert len(worker.lines("callbacks or webhooks")) == 2


async def test_rubbish_in_a_queue_does_not_end_the_worker(
    job_queues: JobQueues, client: sync_redis.Redis, server: EmbeddedServer, paper: Paper, tmp_path: Path
) -> None:
    """Ids that are none, hashes that cannot be read, jobs that are not there: the next job runs."""
    client.hset("rq:job:odd", mapping={"data": b"x", "status": "no such status", "timeout": "soon"})
    client.set("rq:job:text", "no hash")
    client.rpush("rq:queue:refresh", "no such job", "a/b", b"\xff\xfe", "odd", "text", "gone")
    job_queues.enqueue(NOTE, str(paper), "next", id_words=["next"])

    worker = await burst(server, tmp_path)

    assert "next" in paper.words, worker.log
    assert client.hget("rq:job:odd", "status") == b"failed"


async def test_a_job_that_repeats_itself_is_refused(
    job_queues: JobQueues,
    stranger: Callable[..., Queue],
    client: sync_redis.Redis,
    server: EmbeddedServer,
    paper: Paper,
    tmp_path: Path,
) -> None:
    """A million repeats by plain RQ would never end: failed with a sentence, not run, not scheduled; the next runs."""
    job = stranger().enqueue(NOTE, str(paper), "again", repeat=Repeat(times=1_000_000, interval=0))
    job_queues.enqueue(NOTE, str(paper), "next", id_words=["next"])

    worker = await burst(server, tmp_path)

    assert paper.words == ["next"]
    assert worker.lines("it wants to repeat itself")
    assert status(client, job.id) is JobStatus.FAILED
    assert client.zcard("rq:scheduled:refresh") == 0


async def test_a_job_with_too_many_ids_is_refused(
    job_queues: JobQueues,
    stranger: Callable[..., Queue],
    client: sync_redis.Redis,
    server: EmbeddedServer,
    paper: Paper,
    tmp_path: Path,
) -> None:
    """300,000 ids in one job would keep the server from everybody: refused where sent, and where found; others run."""
    many = [f"url_{n:026}" for n in range(300_000)]
    with pytest.raises(JobRefused, match="300,000 ids, and a job has at most 2,000; send them in several jobs"):
        job_queues.enqueue(NOTE, str(paper), many, id_words=["many"])
    job = stranger().enqueue(NOTE, str(paper), many)
    job_queues.enqueue(NOTE, str(paper), "next", id_words=["next"])

    worker = await burst(server, tmp_path)

    assert paper.words == ["next"]
    assert worker.lines("300,000 ids")
    assert status(client, job.id) is JobStatus.FAILED


def test_as_many_ids_as_a_batch_may_have_are_taken(job_queues: JobQueues) -> None:
    """The largest REFRESH_BATCH_ITEMS fits into one job."""
    (limits,) = Settings.__annotations__["refresh_batch_items"].__metadata__
    largest = limits.le

    assert job_queues.enqueue("tests.queue_jobs.note", "x", [f"url_{n:026}" for n in range(largest)], id_words=["x"])
    assert largest == job_specs.MOST_IDS


def test_retries_are_those_of_the_list(client: sync_redis.Redis, stranger: Callable[..., Queue]) -> None:
    """A job that fails is not tried a million times because somebody wrote so."""
    job = stranger().enqueue(NOTE, "x", retry=Retry(max=1_000_000))

    assert job_specs.job_class(queue_jobs.ALLOWED).fetch(job.id, connection=client).retries_left == 2


async def test_bytes_in_a_registry_do_not_break_maintenance(
    job_queues: JobQueues, client: sync_redis.Redis, server: EmbeddedServer, paper: Paper, tmp_path: Path
) -> None:
    """What is no job is dropped and named; the job of a dead worker beside it comes back."""
    job_queues.enqueue(NOTE, str(paper), "back", id_words=["lost"])
    client.delete("rq:queue:refresh")
    client.set("rq:job:text", "no hash")
    client.zadd("rq:wip:refresh", {b"\xff": 1, "no colon": 1, b"a:\xfe": 1, "text:1": 1, "lost:0123abcd": 1})
    client.rpush("rq:queue:refresh:intermediate", b"\xff\xfe", "a b", "text")
    client.sadd("rq:workers:refresh", b"\xff")

    with Worker(tmp_path, server.url, RUNNER, "refresh") as worker:
        await worker.until(lambda: "back" in paper.words)
        await worker.until(lambda: not client.zcard("rq:wip:refresh"))  # RQ notes the end of a job after its last word

        assert len(worker.lines("it is no job of ours")) == 8
        assert worker.tracebacks == []
    assert client.llen("rq:queue:refresh:intermediate") == 0


async def test_a_failure_is_tried_again_and_does_not_block_its_id(
    job_queues: JobQueues, client: sync_redis.Redis, server: EmbeddedServer, paper: Paper, tmp_path: Path
) -> None:
    """Three attempts, then failed; and the same id can be sent at once."""
    job_queues.enqueue(f"{RUNNER}.fail", str(paper), id_words=["fail"])

    with Worker(tmp_path, server.url, RUNNER, "refresh") as worker:
        await worker.until(lambda: client.hget("rq:job:fail", "status") == b"failed")

        assert paper.words == ["failing"] * 3
        assert len(worker.lines("ValueError: on purpose")) == 3
        assert worker.lines("given up")
        assert job_queues.enqueue(NOTE, str(paper), "again", id_words=["fail"])
        await worker.until(lambda: "again" in paper.words)
        await worker.until(lambda: status(client, "fail") is JobStatus.FINISHED)
    assert client.zscore("rq:failed:refresh", "fail") is None
    assert job_queues.enqueue(NOTE, str(paper), "more", id_words=["fail"])


async def test_deployments_do_not_run_each_others_jobs(
    client: sync_redis.Redis, settings: Settings, server: EmbeddedServer, paper: Paper, tmp_path: Path
) -> None:
    """A worker with a prefix runs what was sent with that prefix, and nothing else."""
    for prefix in ("", "a:", "b:"):
        other = JobQueues(settings.model_copy(update={"key_prefix": prefix}), queue_jobs.ALLOWED)
        assert other.enqueue(NOTE, str(paper), f"of={prefix}", id_words=["note"])
        other.close()

    await burst(server, tmp_path, KEY_PREFIX="a:")

    assert paper.words == ["of=a:"]


# ── the command line ──


@pytest.mark.parametrize(("given", "said"), [(["refresh", "emebd"], "no queue 'emebd'"), ([], "which queues")])
def test_queues_are_named(given: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A queue that does not exist, or none: a sentence that names the three, exit 2."""
    with pytest.raises(SystemExit) as ended:
        main(given)

    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert said in told
    assert "refresh, reindex, embed" in told


def test_a_module_that_is_missing_is_an_error_at_start(
    settings: Settings, client: sync_redis.Redis, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What jobs need is imported before the first job; what cannot be is a sentence, exit 2."""
    monkeypatch.setenv("REDIS_URL", connect.url_of(settings))

    code = main(["refresh", "--burst"], {"no.such.module.run": JobSpec(QueueName.REFRESH, 60)})

    assert code == 2
    assert "Jobs need no.such.module" in capsys.readouterr().err


def test_a_wrong_setting_is_a_sentence(tmp_path: Path) -> None:
    """`python -m workers` with a setting that cannot be used: its name, exit 2, no traceback."""
    ended = subprocess.run(
        [sys.executable, "-m", "workers", "refresh"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "TIMER_SECONDS": "soon"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ended.returncode, "TIMER_SECONDS" in ended.stderr, "Traceback" in ended.stderr) == (2, True, False)


# ── the beginning of a worker and of a job ──


def test_a_job_that_cannot_begin_waits_for_the_server(
    settings: Settings, client: sync_redis.Redis, job_queues: JobQueues, paper: Paper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server goes away when a job was just taken: it is put back when it is there again, and runs once."""
    job_queues.enqueue(NOTE, str(paper), "ran", id_words=("n",))
    worker = QueueWorker(settings, [QueueName.REFRESH], queue_jobs.ALLOWED)
    away = [sync_redis.ConnectionError("away")] * 3

    def fails_at_first(method: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **options: object) -> object:
            if away:
                raise away.pop()
            return method(*args, **options)

        return call

    monkeypatch.setattr("core.runtime.queue_worker.PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(worker, "prepare_execution", fails_at_first(worker.prepare_execution))
    monkeypatch.setattr(worker, "_put_back", fails_at_first(worker._put_back))

    assert worker._pass(burst=False)
    assert away == []
    assert (client.lrange("rq:queue:refresh", 0, -1), worker.jobs_taken) == ([b"n"], 0)
    assert worker._pass(burst=False)
    assert (paper.words, status(client, "n"), worker.jobs_taken) == (["ran"], JobStatus.FINISHED, 1)
    worker.teardown()


def test_a_signal_while_a_worker_starts_ends_it(
    settings: Settings, client: sync_redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in the last moment, when the server has answered and its connection is being closed."""
    commands.adopt(monkeypatch, settings)
    served: list[object] = []
    monkeypatch.setattr("workers.__main__._serve", lambda *given: served.append(given))

    @asynccontextmanager
    async def open_and_be_told_to_stop(*_: object, **__: object) -> AsyncIterator[None]:
        yield
        signal.raise_signal(signal.SIGTERM)
        await asyncio.sleep(60)

    monkeypatch.setattr("core.store.redis_health.open_when_ready", open_and_be_told_to_stop)

    assert main(["refresh"]) == 0
    assert served == []


async def test_a_worker_that_says_it_waits_is_registered(
    settings: Settings, client: sync_redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever reads its first line can count on `rq info` naming it."""
    worker = QueueWorker(settings, [QueueName.REFRESH], queue_jobs.ALLOWED)
    seen: list[int] = []
    monitor = logging.Handler()
    monitor.emit = lambda record: "Waiting" in record.getMessage() and seen.append(client.scard("rq:workers"))  # type: ignore[method-assign,assignment]
    log = logging.getLogger("queue")
    log.addHandler(monitor)
    try:
        with caplog.at_level(logging.INFO, "queue"):
            worker.serve(burst=True)
    finally:
        log.removeHandler(monitor)

    assert seen == [1]
