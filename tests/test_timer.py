"""The timer: what is due becomes jobs, and nothing is lost or sent twice."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from rq import Queue
from rq.job import Job
from rq.serializers import JSONSerializer

from core.keys import Keys
from core.models import Ref
from core.registry.io.due import HOLD_SECONDS
from core.registry.io.registrar import Listing, Registrar
from core.runtime import job_specs
from core.runtime.job_queues import JobQueues
from core.settings import Settings
from core.sources.io.domain_file import parse_domain
from core.sources.io.source_store import SourceStore
from core.sources.source_record import DomainFileError
from core.store import connect
from core.store.embedded import EmbeddedServer
from tests.faults.process import Worker
from workers.due_jobs import MOST_WAITING_JOBS
from workers.timer import Timer


class Clockwork:
    """A timer with a queue that nobody works on."""

    def __init__(self, settings: Settings, client: connect.Client, keys: Keys) -> None:
        self.settings, self.client, self.keys = settings, client, keys
        self.queues = JobQueues(settings)
        self.registrar = Registrar(client, keys, "host")
        self.sources = SourceStore(client, keys)
        self.queue = Queue("refresh", connection=connect.open_queue(settings), serializer=JSONSerializer)

    def timer(self, **changes: Any) -> Timer:
        return Timer(self.settings.model_copy(update=changes), self.client, self.keys, self.queues)

    async def due(self, source: str, many: int, ago: float = 100.0, host: str = "") -> None:
        """So many items of the source that are due, the first of them since `ago`."""
        now = await connect.now(self.client)
        for n in range(many):
            ref = Ref(f"https://{host or source.replace('.', '-')}.example/{n:05}")
            await self.registrar.register([ref], Listing(source), now - ago + n / 1_000)

    async def source(self, domain: str) -> str:
        config = {"id": domain, "web_sources": [{"id": "site", "url": f"https://{domain}.example/"}]}
        for one in parse_domain(json.dumps(config), "/").sources():
            await self.sources.add(one, "", await connect.now(self.client))
        return f"{domain}.site"

    @property
    def jobs(self) -> list[Job]:
        made = job_specs.job_class(job_specs.ALLOWED_JOBS)
        return [made.fetch(name, connection=self.queue.connection) for name in self.queue.job_ids]

    @property
    def sent(self) -> list[tuple[str, Any]]:
        """Function and arguments of every waiting job, in order."""
        return [(job.func_name.rpartition(".")[2], job.args) for job in self.jobs]

    def close(self) -> None:
        self.queues.close()
        self.queue.connection.close()


@pytest.fixture
async def clockwork(settings: Settings, redis: connect.Client, keys: Keys) -> AsyncIterator[Clockwork]:
    made = Clockwork(settings, redis, keys)
    yield made
    made.close()


async def test_due_items_become_batches_with_retry(clockwork: Clockwork) -> None:
    """Ids only, as many as a batch holds, oldest first, each job to be tried again when its worker dies."""
    await clockwork.due("urls", 25)

    assert await clockwork.timer(refresh_batch_items=10).tick() == 3

    assert [(name, len(args[0]), args[2]) for name, args in clockwork.sent] == [
        ("refresh", 10, "urls"),
        ("refresh", 10, "urls"),
        ("refresh", 5, "urls"),
    ]
    picked = [item for _, args in clockwork.sent for item in args[0]]
    addresses = [await clockwork.client.hget(clockwork.keys.item(item), "fetchUrl") for item in picked]
    assert addresses == [f"https://urls.example/{n:05}" for n in range(25)]
    for job in clockwork.jobs:
        assert (job.retries_left, job.retry_intervals) == (3, [10, 60, 300])
        assert job.timeout == 600
        assert ":" not in job.id


async def test_second_tick_sends_nothing(clockwork: Clockwork) -> None:
    """What was picked is held, so that a lost job costs a quarter of an hour and a slow one is not doubled."""
    await clockwork.due("urls", 5)
    assert await clockwork.timer().tick() == 1

    assert await clockwork.timer().tick() == 0
    now = await connect.now(clockwork.client)
    stamps = [score for _, score in await clockwork.client.zrange(clockwork.keys.due("urls"), 0, -1, withscores=True)]
    assert all(now + HOLD_SECONDS - 60 < stamp <= now + HOLD_SECONDS for stamp in stamps)


async def test_no_more_jobs_than_can_wait(clockwork: Clockwork) -> None:
    """Beyond the limit nothing is picked: it stays due, oldest first, and goes when there is room."""
    await clockwork.due("urls", 30)
    timer = clockwork.timer(refresh_batch_items=2)

    assert await timer.tick() == MOST_WAITING_JOBS
    assert await timer.tick() == 0
    clockwork.queue.empty()
    assert await timer.tick() == 5
    picked = [item for _, args in clockwork.sent for item in args[0]]
    addresses = [await clockwork.client.hget(clockwork.keys.item(item), "fetchUrl") for item in picked]
    assert addresses == [f"https://urls.example/{n:05}" for n in range(20, 30)]


async def test_sources_get_fair_shares(clockwork: Clockwork) -> None:
    """One with ten thousand due pages does not keep another from its turn."""
    big, small = await clockwork.source("big"), await clockwork.source("small")
    await clockwork.due(big, 300, ago=1_000)
    await clockwork.due(small, 20, ago=10)

    await clockwork.timer(refresh_batch_items=10).send_due([big, small], await connect.now(clockwork.client))

    by_source = Counter(args[2] for _, args in clockwork.sent)
    assert by_source[small] == 2
    assert by_source[big] >= 5


async def test_more_sources_than_room_all_get_their_turn(clockwork: Clockwork) -> None:
    """Nobody starves behind ten that are always busy: after some rounds, every source was served."""
    names = [f"s{n:02}" for n in range(25)]
    for name in names:
        await clockwork.due(f"{name}.site", 41)
    timer, served = clockwork.timer(refresh_batch_items=1), set()

    for _ in range(40):
        await timer.send_due([f"{name}.site" for name in names], await connect.now(clockwork.client))
        served |= {args[2] for _, args in clockwork.sent}
        clockwork.queue.empty()

    assert served == {f"{name}.site" for name in names}


async def test_hosts_get_fair_shares(clockwork: Clockwork) -> None:
    """With a gap between requests a job has as many of a host as fit into its time."""
    await clockwork.due("urls", 50, ago=1_000, host="big")
    await clockwork.due("urls", 3, ago=10, host="small")

    await clockwork.timer(fetch_host_gap_seconds=10, refresh_budget_seconds=100).tick()

    picked = [item for _, args in clockwork.sent for item in args[0]]
    hosts = [await clockwork.client.hget(clockwork.keys.item(item), "sourceHost") for item in picked]
    assert Counter(hosts) == {"big.example": 10, "small.example": 3}


async def test_source_that_is_due_is_listed_once(clockwork: Clockwork) -> None:
    """A pass for it is one job; not another one while that waits, nor at the next tick."""
    sid = await clockwork.source("docs")

    await clockwork.timer().tick()
    await clockwork.timer().tick()

    assert [(name, args[:3]) for name, args in clockwork.sent] == [("crawl", [sid, "", "scheduled"])]
    assert await clockwork.sources.claim_due(await connect.now(clockwork.client), 60.0) == []


async def test_removed_source_sends_nothing(clockwork: Clockwork) -> None:
    """Neither a listing nor its items."""
    sid = await clockwork.source("docs")
    await clockwork.due(sid, 3)
    await clockwork.sources.remove(sid)

    assert await clockwork.timer().tick() == 0


async def test_damaged_source_is_named_once(clockwork: Clockwork, caplog: pytest.LogCaptureFixture) -> None:
    """Its record is put aside, it sends nothing more, and its items stay; its domain, added again, brings it back."""
    sid = await clockwork.source("docs")
    await clockwork.due(sid, 3)
    await clockwork.client.hset(clockwork.keys.source(sid), "config", "[]")

    for _ in range(3):
        with pytest.raises(DomainFileError):
            await clockwork.sources.read(sid)
        assert await clockwork.timer().tick() == 0

    assert [record.message for record in caplog.records if sid in record.message] == [
        f"⚠️ Put aside, as it cannot be read → {clockwork.keys.source(sid)}"
    ]
    assert await clockwork.client.zcard(clockwork.keys.refs(sid)) == 3
    assert await clockwork.client.zcard(clockwork.keys.quarantine) == 1
    await clockwork.source("docs")
    assert await clockwork.timer().tick() == 2


async def test_damaged_source_fails_no_job(
    clockwork: Clockwork, server: EmbeddedServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The pass and the visits that were sent before end without an error, and it is named once."""
    sid = await clockwork.source("docs")
    await clockwork.due(sid, 3)
    assert await clockwork.timer(refresh_batch_items=1).tick() == 4
    await clockwork.client.hset(clockwork.keys.source(sid), "config", "[]")

    with Worker(tmp_path, server.url, "workers", "refresh", "--burst") as worker:
        assert await worker.ended() == 0, worker.log

    assert len(worker.lines(sid)) == 1, worker.log
    assert worker.lines(f"Put aside, as it cannot be read → {clockwork.keys.source(sid)}")
    assert worker.tracebacks == []
    assert await clockwork.client.zcard(clockwork.keys.refs(sid)) == 3


async def test_prefix_is_in_every_name(clockwork: Clockwork) -> None:
    """Two deployments on one server never run each other's jobs."""
    changed = clockwork.settings.model_copy(update={"key_prefix": "other:"})
    keys = Keys.of(changed)
    await Registrar(clockwork.client, keys, "host").register([Ref("https://a.example/")], Listing("urls"), 1.0)
    queues = JobQueues(changed)
    try:
        assert await Timer(changed, clockwork.client, keys, queues).tick() == 1
    finally:
        queues.close()

    assert clockwork.queue.job_ids == []
    assert await clockwork.client.llen("rq:queue:other:refresh") == 1


async def test_once_is_one_tick_of_a_process(clockwork: Clockwork, server: EmbeddedServer, tmp_path: Path) -> None:
    """`python -m workers.timer --once` sends what is due, says so and ends with 0; a second one is quiet."""
    await clockwork.due("urls", 3)
    sid = await clockwork.source("docs")

    with Worker(tmp_path, server.url, "workers.timer", "--once") as timer:
        assert timer.process.wait(30) == 0, timer.log
    assert timer.lines("2 jobs sent")
    about = {"crawl": 0, "refresh": 2}  # which argument names the source
    assert sorted((name, args[about[name]]) for name, args in clockwork.sent) == [("crawl", sid), ("refresh", "urls")]
    with Worker(tmp_path, server.url, "workers.timer", "--once") as again:
        assert again.process.wait(30) == 0, again.log
    assert again.log == ""
