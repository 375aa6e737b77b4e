"""/health and /metrics of the HTTP API."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from core.keys import Keys
from core.runtime.process_beats import ProcessBeats
from core.runtime.queue_names import QueueName
from core.runtime.queue_worker import QueueWorker
from core.secret_text import SecretStr
from core.settings import Settings
from core.store import connect, embedded
from core.store.connect import Client
from core.urls.redis_url import masked
from tests import ports
from tests.api import ApiServer, api_server

NAME = re.compile(r"freshet_[a-z_]+")


@contextlib.asynccontextmanager
async def commands_sent(client: Client) -> AsyncIterator[Counter[str]]:
    """Count all commands that the server gets meanwhile, those inside of scripts among them."""
    sent: Counter[str] = Counter()
    await client.config_resetstat()
    yield sent
    stats = await client.info("commandstats")
    sent.update({name.removeprefix("cmdstat_"): int(values["calls"]) for name, values in stats.items()})


async def test_degraded_without_workers(api: ApiServer) -> None:
    """A store that answers and has nothing late is served, and what is missing is said."""
    answer = await api.get("/health")

    assert (answer.status, answer.json["status"]) == (200, "degraded")
    assert answer.json["workers"] == {"refresh": 0, "reindex": 0, "embed": 0}
    assert "The timer has no heartbeat: nothing that is due is sent to the workers." in answer.json["problems"]
    assert (answer.json["lag_seconds"], answer.json["due_items"]) == (0.0, 0)


async def test_what_is_paused_is_told_without_names(api: ApiServer, redis: Client, keys: Keys) -> None:
    """Kinds of runs are named, domains only counted: nobody needs a token for this answer."""
    await redis.hset(
        keys.runs_paused, mapping={"ingest": "2026-01-01T00:00:00Z", "domain:secret": "2026-01-01T00:00:00Z"}
    )
    answer = await api.get("/health")

    assert (answer.json["paused_kinds"], answer.json["paused_scopes"]) == (["ingest"], 2)
    assert "secret" not in answer.text


async def test_late_work_without_workers_is_down(api: ApiServer, redis: Client, keys: Keys) -> None:
    """What has been due for long and nobody does answers 503 with the lag; a paused source is not late."""
    await redis.sadd(keys.sources, "docs.site")
    await redis.zadd(keys.due("docs.site"), {"url_a": await connect.now(redis) - 3_600})
    late = await api.get("/health")
    await redis.hset(keys.runs_paused, "domain:docs", "2026-01-31T12:00:00Z")
    paused = await api.get("/health")

    assert (late.status, late.json["status"], late.json["due_items"]) == (503, "down", 1)
    assert 3_600 <= late.json["lag_seconds"] < 3_700
    assert (paused.status, paused.json["lag_seconds"]) == (200, 0.0)


async def test_heartbeats_come_and_go(api: ApiServer, redis: Client, keys: Keys) -> None:
    """A process with a heartbeat is alive; one that has ended is not, nor one that is silent for long."""
    beats = ProcessBeats(redis, keys)
    await redis.zadd(keys.processes, {"ingestor@elsewhere:1": await connect.now(redis) - 300})
    async with beats.running("timer"):
        during = (await _until_beat(api))["processes"]
    after = (await api.get("/health")).json["processes"]

    assert during == {"ingestor": False, "timer": True, "webhooks": False}
    assert after == {"ingestor": False, "timer": False, "webhooks": False}


async def _until_beat(api: ApiServer) -> dict:
    while not (answer := (await api.get("/health")).json)["processes"]["timer"]:
        pass
    return answer


async def test_workers_are_counted_by_their_heartbeat(api: ApiServer, settings: Settings) -> None:
    """A worker that has registered counts for its queues; one that is silent or has stopped does not."""
    worker = QueueWorker(settings, [QueueName.REFRESH, QueueName.REINDEX])
    worker.register_birth()
    alive = (await api.get("/health")).json
    silent = datetime.now(UTC) - timedelta(minutes=5)
    worker.connection.hset(worker.key, "last_heartbeat", silent.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
    hanging = (await api.get("/health")).json
    worker.heartbeat()
    back = (await api.get("/health")).json
    worker.teardown()
    ended = (await api.get("/health")).json

    assert alive["workers"] == {"refresh": 1, "reindex": 1, "embed": 0}
    assert [one["workers_alive"] for one in (alive, hanging, back, ended)] == [1, 0, 1, 0]


async def test_store_that_is_away(settings: Settings) -> None:
    """503 with a sentence that names no server, before it was ever reached."""
    away = settings.model_copy(update={"redis_url": SecretStr("redis://:secret@127.0.0.1:1/0")})
    async with api_server(away) as api:
        answer = await api.get("/health")

    assert (answer.status, answer.json["status"], answer.json["server"]) == (503, "down", False)
    assert answer.json["problems"] == ["Redis does not answer."]
    assert "secret" not in answer.text


async def test_store_that_goes_away_and_comes_back(settings: Settings, tmp_path: Path) -> None:
    """Everything answers 503 with a sentence meanwhile, and works again with the same API, the open replica too."""
    folder, port = tmp_path / "server", ports.take()
    server = embedded.start(folder, port)
    mine = settings.model_copy(update={"redis_url": SecretStr(server.url), "embedder": "none"})
    paths = ("/health", "/metrics", "/api/Search?q=weir", "/api/articles", "/api/status")
    try:
        async with api_server(mine.model_copy(update={"redis_timeout_seconds": 0.5})) as api:
            before = [(await api.get(path)).status for path in paths]
            await asyncio.to_thread(server.stop)
            away = [await api.get(path) for path in paths]
            server = await asyncio.to_thread(embedded.start, folder, port)
            after = [(await api.get(path)).status for path in paths]
    finally:
        server.stop()

    assert (before, after) == ([200] * 5, [200] * 5)
    assert [answer.status for answer in away] == [503] * 5
    assert all(answer.error["code"] == "unavailable" for answer in away[1:])
    assert away[0].json["problems"][0].startswith("Redis does not answer")


async def test_queues_of_another_server(settings: Settings, redis: Client, keys: Keys) -> None:
    """Where that does not answer, it is said, and everything else is there."""
    other = settings.model_copy(update={"queue_redis_url": SecretStr("redis://127.0.0.1:1/0")})
    async with api_server(other) as api:
        health, metrics = await api.get("/health"), await api.get("/metrics")

    assert health.status == 200
    assert "The queues' server (QUEUE_REDIS_URL) does not answer." in health.json["problems"]
    assert (metrics.status, "freshet_articles 0.0" in metrics.text) == (200, True)


async def test_health_needs_no_token_and_metrics_does(settings: Settings, redis: Client) -> None:
    """With an API_TOKEN only /health is public; what it says names no server, host or URL."""
    guarded = settings.model_copy(update={"api_token": SecretStr("sesame")})
    async with api_server(guarded) as api:
        public, refused = await api.get("/health"), await api.get("/metrics")
        allowed = await api.get("/metrics", headers={"Authorization": "Bearer sesame"})

    assert (public.status, refused.status, allowed.status) == (200, 401, 200)
    assert "://" not in public.text
    assert masked(connect.url_of(settings)) not in public.text


async def test_neither_scans(api: ApiServer, redis: Client, keys: Keys) -> None:
    """Both read counters, first members and a bounded sample: no SCAN, KEYS or whole set of items."""
    ids = [f"url_{number}" for number in range(3_000)]
    await redis.sadd(keys.status("Indexed"), *ids)
    await redis.zadd(keys.due("rss"), dict.fromkeys(ids, 1.0))
    async with commands_sent(redis) as sent:
        assert (await api.get("/health")).status == 200
        assert (await api.get("/metrics")).status == 200

    assert {"zcount", "srandmember"} <= set(sent)
    assert [name for name in sent if "scan" in name or name in ("keys", "sort")] == []
    assert sent["hmget"] < 1_000


async def put_webhooks(redis: Client, keys: Keys) -> None:
    """Store an active webhook, a disabled one, one whose record is damaged, and the name of one that is gone."""
    rows = {
        "wh_000000000001": {"status": "active", "last_error": "The receiver answered 500.", "lost_events": "7"},
        "wh_000000000002": {"status": "disabled", "last_error": "410"},
        "wh_000000000003": {"status": "?", "lost_events": "many"},
    }
    for name, fields in rows.items():
        await redis.hset(keys.webhook(name), mapping=fields)
    first, second = list(rows)[:2]
    waiting = [keys.webhook_pending(first), keys.webhook_pending(first), keys.webhook_replay(first)]
    for queue in (*waiting, keys.webhook_pending(second), keys.webhook_dead(first), keys.webhook_dead(second)):
        await redis.xadd(queue, {"event": "1-0"})
    await redis.zadd(keys.webhooks, dict.fromkeys([*rows, "wh_00000000000f"], 1.0))


@pytest.mark.parametrize("has_data", [False, True])
async def test_metrics_can_be_parsed(api: ApiServer, redis: Client, keys: Keys, has_data: bool) -> None:
    """Every family has help, a type and a name of ours; labels are bounded, and no URL is among them."""
    if has_data:
        now = await connect.now(redis)
        await redis.sadd(keys.status("Indexed"), "url_a")
        await redis.hset(keys.item("url_a"), mapping={"verifiedTs": now - 100, "checkedTs": now, "changedTs": now})
        await redis.hset(keys.refresh_stats, mapping={"changed": 3, "failed": 1})
        sids = [f"docs.s{number:03}" for number in range(250)]
        await redis.sadd(keys.sources, *sids)
        for sid in sids:
            await redis.hset(keys.source(sid), "last_success_ts", now)
        await put_webhooks(redis, keys)
    answer = await api.get("/metrics")
    families = {one.name: one for one in text_string_to_metric_families(answer.text)}

    assert answer.headers["Content-Type"].startswith("text/plain")
    assert all(NAME.fullmatch(name) and one.documentation and one.type != "unknown" for name, one in families.items())
    assert "://" not in answer.text
    assert {sample.labels["queue"] for sample in families["freshet_queue_items"].samples} == {
        *("refresh", "reindex", "embed")
    }
    if has_data:
        fetches = {sample.labels["outcome"]: sample.value for sample in families["freshet_fetches"].samples}
        ages = {sample.labels["quantile"]: sample.value for sample in families["freshet_freshness_age_seconds"].samples}
        assert (fetches["changed"], fetches["failed"], fetches["gone"]) == (3, 1, 0)
        assert set(ages) == {"0.5", "0.95", "0.99"}
        assert 100 <= ages["0.5"] < 200
        assert len(families["freshet_source_last_success_timestamp_seconds"].samples) == 200
        assert families["freshet_sources"].samples[0].value == 252
    expected = (3, 2, 4, 2, 7) if has_data else (0, 0, 0, 0, 0)
    webhooks = {sample.labels["status"]: int(sample.value) for sample in families["freshet_webhooks"].samples}
    names = ("failing_webhooks", "webhook_waiting_events", "webhook_dead_letters", "webhook_lost_events")
    counts = [int(families[f"freshet_{name}"].samples[0].value) for name in names]
    assert (sum(webhooks.values()), *counts) == expected
    assert webhooks == ({"active": 1, "paused": 0, "disabled": 2} if has_data else dict.fromkeys(webhooks, 0))
