"""The doctor: every invariant planted on a store as it really is, found, healed, and not found a second time."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest

from core.doctor.invariants import Problem
from core.doctor.io.doctor import Doctor
from core.runtime.context import open_context
from core.runtime.job_queues import JobQueues
from core.runtime.queue_names import QueueName, rq_queue_name
from core.settings import Settings
from core.store import connect
from scripts import doctor
from tests import commands
from tests.damage_scene import PAGES, SID, WORDS, Scene, open_scene
from tests.faults import process

Plant = Callable[[Scene, int], Awaitable[None]]


@pytest.fixture
async def scene(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    async with open_scene(settings) as opened:
        adopted = {"EMBEDDER": "openai", "EMBED_API_URL": opened.settings.embed_api_url, "EMBED_MODEL": "first"}
        commands.adopt(monkeypatch, opened.settings, **adopted)
        yield opened


async def told(capsys: pytest.CaptureFixture[str], *, fix: bool = False) -> tuple[int, dict[str, Any]]:
    """Exit code, and all it says."""
    capsys.readouterr()
    code = await doctor.doctor(fix=fix, as_json=True)
    return code, json.loads(capsys.readouterr().out)


# ── one way to break each ──


def word(n: int) -> str:
    return WORDS[n % len(WORDS)]


def page(scene: Scene, n: int) -> str:
    return scene.page_id(PAGES[n % len(PAGES)])


async def i1(scene: Scene, n: int) -> None:
    await scene.client.sadd(scene.keys.articles_by_category("world"), f"{n:016x}")


async def i2(scene: Scene, n: int) -> None:
    await scene.client.zrem(scene.keys.article_index, scene.uid(word(n)))


async def i3(scene: Scene, n: int) -> None:
    await scene.client.zadd(scene.keys.article_index, {f"{n:016x}": n})


async def i4(scene: Scene, n: int) -> None:
    await scene.client.srem(scene.keys.articles_by_category("world"), scene.uid(word(n)))


async def i5_no_ttl(scene: Scene, n: int) -> None:
    await scene.client.persist(scene.keys.article(scene.uid(word(n))))


async def i5_long_ttl(scene: Scene, n: int) -> None:
    await scene.client.expire(scene.keys.article(scene.uid(word(n))), 90 * 86_400)


async def i6_article_altered(scene: Scene, n: int) -> None:
    await scene.client.hset(scene.keys.article(scene.uid(word(n))), "clean_text", f"Something else {n}.")


async def i6_page_altered(scene: Scene, n: int) -> None:
    await scene.client.hset(scene.keys.document(page(scene, n)), "markdown", f"Something else {n}.")


async def i7(scene: Scene, n: int) -> None:
    await scene.client.srem(scene.keys.attempted, scene.uid(word(n)))
    await scene.client.zrem(scene.keys.attempted_at, scene.uid(word(n)))


async def i7_alias(scene: Scene, n: int) -> None:
    await scene.client.set(scene.keys.alias(f"{n:016x}"), "f" * 16, ex=60)


async def i8_old(scene: Scene, n: int) -> None:
    now = await connect.now(scene.client)
    await scene.client.sadd(scene.keys.attempted, f"{n:016x}")
    await scene.client.zadd(scene.keys.attempted_at, {f"{n:016x}": now - 31 * 86_400})


async def i8_no_time(scene: Scene, n: int) -> None:
    await scene.client.sadd(scene.keys.attempted, f"{n:016x}")


async def i9_no_code(scene: Scene, n: int) -> None:
    await scene.client.zadd(scene.keys.failures, {f"{n:016x}:FAIL_NOTHING": await connect.now(scene.client)})


async def i9_two_codes(scene: Scene, n: int) -> None:
    now = await connect.now(scene.client)
    await scene.client.zadd(scene.keys.failures, {f"{n:016x}:FAIL_HTTP": now, f"{n:016x}:FAIL_EMPTY": now - 5})


async def i10_not_due(scene: Scene, n: int) -> None:
    await scene.client.zrem(scene.keys.due(SID), page(scene, n))


async def i10_not_listed(scene: Scene, n: int) -> None:
    await scene.client.zrem(scene.keys.refs("rss"), scene.article_id(word(n)))


async def i10_source(scene: Scene, n: int) -> None:
    await scene.client.zrem(scene.keys.sources_due, SID)


async def i10_stranger_is_due(scene: Scene, n: int) -> None:
    await scene.client.zadd(scene.keys.due("urls"), {page(scene, n): n})


async def i10_broken_feed(scene: Scene, n: int) -> None:
    fid = f"{n:016x}"
    await scene.client.hset(scene.keys.feed(fid), mapping={"status": "error", "last_poll_ts": "1800000000"})


async def i10_no_broken_feed(scene: Scene, n: int) -> None:
    await scene.client.zadd(scene.keys.feeds_broken, {f"cafe{n:012x}": 1_800_000_000})


async def i11(scene: Scene, n: int) -> None:
    await scene.client.set(scene.keys.lease(page(scene, n)), "somebody", ex=30 * 86_400)


async def i12(scene: Scene, n: int) -> None:
    await scene.client.set(scene.keys.lease(page(scene, n)), "somebody")


async def i14_never(scene: Scene, n: int) -> None:
    await scene.client.hset(scene.keys.item(page(scene, n)), "nextCrawlAt", "")
    await scene.client.zrem(scene.keys.due(SID), page(scene, n))


async def i14_too_late(scene: Scene, n: int) -> None:
    await scene.client.zadd(scene.keys.due(SID), {page(scene, n): float("inf") if n % 2 else 9e9})


async def i16_processed(scene: Scene, n: int) -> None:
    await scene.client.hset(scene.keys.item(page(scene, n)), "processedGeneration", str(n + 5))


async def i16_requested(scene: Scene, n: int) -> None:
    await scene.client.hset(scene.keys.item(page(scene, n)), "reindexRequested", "true")


async def i17(scene: Scene, n: int) -> None:
    await scene.client.srem(scene.keys.status("Indexed"), page(scene, n))


async def i18_address(scene: Scene, n: int) -> None:
    secret = {"normalizedSource": "https://example.org/a?access_token=abcdefghijklmnop0123456789"}
    await scene.client.hset(scene.keys.item(page(scene, n)), mapping=secret)


async def i18_message(scene: Scene, n: int) -> None:
    text = "Failed: https://example.org/?access_token=abcdefghijklmnop0123456789"
    await scene.client.hset(scene.keys.item(page(scene, n)), "errorMessage", text)


async def i19(scene: Scene, n: int) -> None:
    await scene.client.delete(*[scene.keys.vector(c) for c in await chunks(scene, page(scene, n))])


async def i21(scene: Scene, n: int) -> None:
    fields = {"id": f"url_{n}", "status": "Indexed", "parentPageId": "url_nobody", "PartitionKey": "h", "sources": ""}
    await scene.client.hset(scene.keys.item(f"url_{n}"), mapping=fields)
    await scene.client.sadd(scene.keys.status("Indexed"), f"url_{n}")
    await scene.client.sadd(scene.keys.partition("h"), f"url_{n}")


async def i24_no_job(scene: Scene, n: int) -> None:
    with_queue(scene, lambda client, name: client.rpush(f"rq:queue:{name}", f"nobody-{n}"))


async def i24_two_places(scene: Scene, n: int) -> None:
    job = send(scene, n)
    with_queue(scene, lambda client, name: client.zadd(f"rq:finished:{name}", {job: 9e9}))


async def i25(scene: Scene, n: int) -> None:
    job = send(scene, n)

    def take(client: Any, name: str) -> None:
        client.lrem(f"rq:queue:{name}", 0, job)
        client.rpush(f"rq:queue:{name}:intermediate", job)
        client.hset(f"rq:job:{job}", "enqueued_at", "2020-01-01T00:00:00.000000Z")

    with_queue(scene, take)


async def i28(scene: Scene, n: int) -> None:
    await scene.client.hincrby(scene.keys.canonical_stats, "found", n + 3)


async def unknown_status(scene: Scene, n: int) -> None:
    await scene.client.hset(scene.keys.item(page(scene, n)), "status", f"Odd{n}")


async def unreadable_fields(scene: Scene, n: int) -> None:
    await scene.client.hset(scene.keys.item(page(scene, n)), mapping={"nextCrawlAt": "soon", "checkedTs": "nan"})


async def key_of_another_type(scene: Scene, n: int) -> None:
    await scene.client.delete(scene.keys.article(scene.uid(word(n))))
    await scene.client.rpush(scene.keys.article(scene.uid(word(n))), "x")


async def alias_cycle(scene: Scene, n: int) -> None:
    one, other = page(scene, n), page(scene, n + 1)
    for name, target in ((one, other), (other, one)):
        await scene.client.hset(scene.keys.item(name), "aliasOf", target)
        await scene.client.hdel(scene.keys.document(name), "content_hash", "markdown", "live", "text_sha1")


async def source_damaged(scene: Scene, n: int) -> None:
    await scene.client.hset(scene.keys.source(SID), "config", '{"sid": ')


async def record_lost(scene: Scene, n: int) -> None:
    await scene.client.delete(scene.keys.item(scene.article_id(word(n))))


async def queue_key_of_another_type(scene: Scene, n: int) -> None:
    with_queue(scene, lambda client, name: client.set(f"rq:wip:{name}", "x"))


PLANTS: dict[Plant, Problem] = {
    i1: Problem.LISTED_WITHOUT_ARTICLE,
    i2: Problem.ARTICLE_NOT_IN_INDEX,
    i3: Problem.INDEXED_WITHOUT_ARTICLE,
    i4: Problem.ARTICLE_NOT_IN_CATEGORY,
    i5_no_ttl: Problem.WRONG_ARTICLE_TTL,
    i5_long_ttl: Problem.WRONG_ARTICLE_TTL,
    i6_article_altered: Problem.ALTERED_TEXT,
    i6_page_altered: Problem.ALTERED_TEXT,
    i7: Problem.ARTICLE_NOT_ATTEMPTED,
    i7_alias: Problem.ALIAS_OF_NOTHING,
    i8_old: Problem.STALE_ATTEMPT,
    i8_no_time: Problem.STALE_ATTEMPT,
    i9_no_code: Problem.BAD_FAILURE,
    i9_two_codes: Problem.BAD_FAILURE,
    i10_not_due: Problem.NEVER_DUE,
    i10_not_listed: Problem.NOT_LISTED,
    i10_source: Problem.SOURCE_NOT_LISTED,
    i10_stranger_is_due: Problem.DUE_AND_NOT_LISTED,
    i10_broken_feed: Problem.FEED_MISLISTED,
    i10_no_broken_feed: Problem.FEED_MISLISTED,
    i11: Problem.LEASE_TOO_LONG,
    i12: Problem.NO_TTL,
    i14_never: Problem.NEVER_DUE,
    i14_too_late: Problem.NEVER_DUE,
    i16_processed: Problem.WRONG_GENERATION,
    i16_requested: Problem.WRONG_GENERATION,
    i17: Problem.MISPLACED,
    i18_address: Problem.CREDENTIALS,
    i18_message: Problem.CREDENTIALS,
    i19: Problem.NOT_EMBEDDED,
    i21: Problem.NO_PARENT,
    i24_no_job: Problem.JOB_MISPLACED,
    i24_two_places: Problem.JOB_MISPLACED,
    i25: Problem.JOB_STUCK,
    queue_key_of_another_type: Problem.QUEUE_TYPE,
    i28: Problem.WRONG_COUNTERS,
    unknown_status: Problem.DAMAGED_FIELDS,
    unreadable_fields: Problem.DAMAGED_FIELDS,
    key_of_another_type: Problem.WRONG_TYPE,
    alias_cycle: Problem.ALIAS_CYCLE,
    source_damaged: Problem.SOURCE_DAMAGED,
    record_lost: Problem.RECORD_MISSING,
}


async def chunks(scene: Scene, item_id: str) -> Sequence[str]:
    return await scene.client.zrange(scene.keys.chunks(item_id), 0, -1)


def send(scene: Scene, n: int) -> str:
    queues = JobQueues(scene.settings)
    queues.enqueue("workers.jobs.refresh", ["url_x"], 0.0, "urls", id_words=("refresh", f"x{n}"))
    queues.close()
    return f"refresh-x{n}"


def with_queue(scene: Scene, use: Callable[[Any, str], object]) -> None:
    client = connect.open_queue(scene.settings)
    use(client, rq_queue_name(scene.settings, QueueName.REFRESH))
    client.close()


# ── the tests ──


AT_ONCE = 4
"""Plants that are tried together, each on another item; with --full each is tried alone, twenty times."""


async def test_every_invariant_is_found_healed_and_not_found_again(
    scene: Scene, capsys: pytest.CaptureFixture[str], full: bool
) -> None:
    """Told by its id with exit code 1, healed or put aside by --fix, and then there is nothing left."""
    assert (await told(capsys))[1]["findings"] == {}
    if full:
        together = [[(plant, n)] for plant in PLANTS for n in range(20)]
    else:
        of_one_item = [plant for plant in PLANTS if plant is not alias_cycle]
        step = math.ceil(len(of_one_item) / AT_ONCE)
        together = [list(zip(of_one_item[first::step], range(AT_ONCE), strict=False)) for first in range(step)]
        together.append([(alias_cycle, 0)])
    for planted in together:
        names = [plant.__name__ for plant, _ in planted]
        await scene.restore()
        for plant, n in planted:
            await plant(scene, n)
        before = await commands.everything(scene.client)

        code, said = await told(capsys)
        assert code == 1, names
        for wrong in (PLANTS[plant] for plant, _ in planted):
            assert said["findings"].get(str(wrong)), (names, wrong, said["findings"])
            assert said["invariants"].get(wrong.invariant), (names, wrong)
        after = await commands.everything(scene.client)
        assert commands.changed_beside_runs(before, after, scene.keys) == [], f"{names}: a look has changed something"
        code, said = await told(capsys, fix=True)
        assert (code, said["left"]) == (0, 0), (names, said)
        code, said = await told(capsys)
        assert (code, said["findings"]) == (0, {}), (names, said)


async def test_healed_items_are_read_again(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    """Altered texts, aliases in a circle and lost records: after the doctor and a visit everything is found again."""
    for plant in (i6_article_altered, i6_page_altered, alias_cycle, record_lost, unknown_status, key_of_another_type):
        await scene.restore()
        await plant(scene, 1)
        await told(capsys, fix=True)
        await scene.refresh()
        await scene.embed()
        paths = [f"/docs/{name}" for name in PAGES]
        paths += [f"/news/{name}" for name in WORDS if plant is not key_of_another_type or name != word(1)]
        missing = [path for path in paths if await scene.found(path.rpartition("/")[2]) != [path]]
        assert missing == [], plant.__name__


async def test_living_article_stays_in_search_when_its_record_is_lost(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    """The record is made again from the article, with the same id and its sources."""
    await record_lost(scene, 0)
    await told(capsys, fix=True)

    record = await scene.client.hgetall(scene.keys.item(scene.article_id(word(0))))
    assert (record["articleUid"], record["sources"], record["status"]) == (scene.uid(word(0)), "rss", "Crawled")
    assert await scene.found(word(0)) == [f"/news/{word(0)}"]


async def test_no_alarm_while_workers_write(scene: Scene, full: bool) -> None:
    """With lives of a second, articles end and are pruned all the time: nothing of that is damage."""
    short = scene.settings.model_copy(
        update={"article_ttl_seconds": 1, "link_ttl_seconds": 1, "attempted_ttl_seconds": 60}
    )
    for uid in map(scene.uid, WORDS):
        await scene.client.expire(scene.keys.article(uid), 1)
    alarms = []
    rounds = 0

    async def until_workers_have_been_everywhere(_: float) -> None:
        """Half a second is enough for workers that are alone on the machine."""
        enough = rounds + 2
        await process.until(lambda: rounds >= enough)

    async def look() -> None:
        for _ in range(20 if full else 3):
            doctor = Doctor(scene.client, scene.keys, short, until_workers_have_been_everywhere)
            alarms.extend([one async for some in doctor.check_all() for one in some])

    async with open_context(short) as context:
        scene.context, scene.settings = context, short
        work = asyncio.create_task(look())
        while not work.done():
            await scene.work()
            rounds += 1
        await work

    assert alarms == []


async def test_keys_of_others_are_only_noted(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    """The server may be shared: told, not counted, not touched."""
    await scene.client.set("somebody:else", "1")

    code, said = await told(capsys, fix=True)

    assert (code, said["findings"]) == (0, {})
    assert any("somebody:else" in note for note in said["notes"])
    assert await scene.client.get("somebody:else") == "1"


def test_every_problem_has_an_invariant() -> None:
    """Nothing is told without its id."""
    assert all(problem.invariant for problem in Problem)
