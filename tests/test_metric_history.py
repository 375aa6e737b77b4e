"""The history: one entry a minute, whoever writes it, and what a row of entries says."""

from __future__ import annotations

import pytest

from core.keys import Keys
from core.registry import metric_history
from core.registry.io.metric_history_store import KEPT_ENTRIES, HistoryStore
from core.registry.metric_history import HistoryEntry, parse_entry, to_fields
from core.runtime.history_recorder import HistoryRecorder
from core.runtime.store_monitor import StoreMonitor
from core.settings import Settings
from core.store import connect
from core.store.connect import Client
from core.store.embedded import EmbeddedServer
from tests.faults.process import Worker, until

NOW = 1_800_000_000.0


def entries(*values: tuple[float, dict[str, float]]) -> list[HistoryEntry]:
    """Entries by how many minutes ago they were."""
    return [HistoryEntry(NOW - 60 * minutes, known) for minutes, known in values]


def test_stored_and_read_again() -> None:
    """Whole numbers have no point; what nobody knows is not stored; what is no number is not read."""
    fields = to_fields({"p50": 1.5, "stored": 1_000_000.0, "unknown": 3.0})

    assert fields == {"p50": "1.5", "stored": "1000000"}
    assert parse_entry(NOW, fields | {"p95": "soon"}).values == {"p50": 1.5, "stored": 1_000_000.0}


def test_increase_within_an_hour() -> None:
    """The first entry within the hour is what counts; without one, everything since the beginning."""
    row = entries((90, {"stored": 1}), (59, {"stored": 10}), (5, {"stored": 30}))
    now = HistoryEntry(NOW, {"stored": 42.0, "polled": 7.0})

    assert metric_history.increase(row, now).counts["stored"] == 32
    assert metric_history.increase(row, now).seconds == 59 * 60
    assert metric_history.increase([], now).counts["stored"] == 42
    assert metric_history.increase([], now).seconds is None


def test_counters_that_began_anew() -> None:
    """A smaller counter than before is no speed, and no growth."""
    row = entries((10, {"stored": 100}), (5, {"stored": 3}), (0, {"stored": 8}))
    at = metric_history.times(NOW - 600, NOW, 300)

    assert metric_history.rate(row, at, 300, ["stored"], 3_600) == (None, None, 60.0)
    assert metric_history.increase(row, HistoryEntry(NOW, {"stored": 3.0})).counts["stored"] == 0


def test_gaps_stay_gaps() -> None:
    """A step without an entry has no value; the speed after it is the mean of the whole gap."""
    row = entries((30, {"p50": 10, "changed": 0}), (29, {"p50": 20, "changed": 60}), (0, {"p50": 40, "changed": 350}))
    at = metric_history.times(NOW - 1_800, NOW, 600)

    assert metric_history.gauge(row, at, 600, "p50") == (10, 20, None, 40)
    assert metric_history.rate(row, at, 600, ["changed"], 60) == (None, 60, None, 10)


async def test_one_entry_a_minute(redis: Client, keys: Keys) -> None:
    """Two writers of the same minute leave one entry, the first; a late one of an earlier minute leaves none."""
    one, other = HistoryStore(redis, keys), HistoryStore(redis, keys)
    written = [
        await one.add(NOW, {"stored": 1}),
        await other.add(NOW + 30, {"stored": 2}),
        await other.add(NOW + 60, {"stored": 3}),
        await one.add(NOW, {"stored": 4}),
    ]
    read = (await one.read(0.0)).entries

    assert written == [True, False, True, False]
    assert [(entry.ts, entry.values["stored"]) for entry in read] == [(NOW, 1.0), (NOW + 60, 3.0)]
    assert await redis.xrange(keys.history) == [
        (f"{int(NOW)}000-0", {"stored": "1"}),
        (f"{int(NOW) + 60}000-0", {"stored": "3"}),
    ]


async def test_a_second_look_reads_what_is_new(redis: Client, keys: Keys) -> None:
    """What was read is kept; a history that someone deleted is read anew; two days are kept."""
    store = HistoryStore(redis, keys)
    for minute in range(3):
        await store.add(NOW + 60 * minute, {"stored": minute})
    first = (await store.read(NOW + 60)).entries
    await store.add(NOW + 180, {"stored": 3})
    second = await store.read(0.0)
    same = await store.read(0.0)
    await redis.delete(keys.history)
    gone = (await store.read(0.0)).entries
    await redis.eval(
        "for n = 1, 3000 do redis.call('XADD', KEYS[1], n * 60000 .. '-0', 'stored', n) end", 1, keys.history
    )
    await store.add(4_000 * 60, {"stored": 9})
    many = (await store.read(0.0)).entries

    assert [entry.values["stored"] for entry in first] == [1.0, 2.0]
    assert [entry.values["stored"] for entry in second.entries] == [0.0, 1.0, 2.0, 3.0]
    assert same is second
    assert gone == ()
    assert (len(many), await redis.xlen(keys.history)) == (KEPT_ENTRIES, KEPT_ENTRIES)


async def test_recorder_writes_what_the_metrics_say(redis: Client, keys: Keys, settings: Settings) -> None:
    """Counters, backlog and queues of this minute."""
    await redis.hset(keys.canonical_stats, "stored", 12)
    await redis.hset(keys.refresh_stats, mapping={"changed": 3, "unchanged": 4})
    await redis.zadd(keys.embed_due, {"url_a": 1.0})
    monitor = StoreMonitor(settings, redis, keys)
    is_first = await HistoryRecorder(monitor, redis, keys).record()
    values = (await HistoryStore(redis, keys).read(0.0)).entries[0].values

    assert is_first
    expected = {"stored": 12, "changed": 3, "embed_waiting": 1, "queue_embed": 0, "chunks": 0}
    assert {name: values[name] for name in expected} == expected
    assert "p50" not in values


@pytest.mark.parametrize("options", [("--once",), ()], ids=["once", "for ever"])
async def test_the_timer_records(
    redis: Client, keys: Keys, settings: Settings, server: EmbeddedServer, options: tuple[str, ...]
) -> None:
    """The real process writes the entry of the minute at once."""
    client = connect.open_queue(settings)
    with Worker(settings.persistent_storage_path, server.url, "workers.timer", *options) as timer:
        await until(lambda: bool(client.exists(keys.history)), lambda: timer.log)
    client.close()
