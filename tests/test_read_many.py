"""Many keys are read in one round trip, by a pipeline or by a script, with the same replies."""

from __future__ import annotations

import pytest

from core.keys import Keys
from core.store import connect, pipeline
from core.store.commands import Command


async def stored(redis: connect.Client, keys: Keys) -> list[Command]:
    """Commands that read something, nothing, and bytes that are no UTF-8."""
    await redis.set(keys.alias("a"), "target")
    await redis.hset(keys.article("a"), mapping={"title": "Weir \udcff", "empty": ""})
    await redis.sadd(keys.attempted, "a")
    return [
        ("GET", keys.alias("a")),
        ("GET", keys.alias("none")),
        ("EXISTS", keys.article("a")),
        ("EXISTS", keys.article("none")),
        ("HGET", keys.article("a"), "title"),
        ("HMGET", keys.article("a"), "none", "empty", "none", "title", "none"),
        ("HMGET", keys.article("none"), "title", "empty"),
        ("SISMEMBER", keys.attempted, "a"),
        ("SISMEMBER", keys.attempted, 7),
        ("SCARD", keys.attempted),
        ("ZCARD", keys.attempted_at),
        ("SUNION", keys.attempted, keys.categories),
        ("SUNION", keys.categories),
    ]


@pytest.mark.parametrize("commands_per_script", [5, 1_000])
async def test_a_script_replies_as_a_pipeline(
    redis: connect.Client, keys: Keys, monkeypatch: pytest.MonkeyPatch, commands_per_script: int
) -> None:
    """Missing keys and fields included, and in the same places."""
    commands = await stored(redis, keys)
    by_pipeline = await pipeline.read_many(redis, commands)
    monkeypatch.setattr(pipeline, "SCRIPTED_FROM", 1)
    monkeypatch.setattr(pipeline, "COMMANDS_PER_SCRIPT", commands_per_script)
    await redis.config_resetstat()

    assert await pipeline.read_many(redis, commands) == by_pipeline
    assert by_pipeline[:3] == ["target", None, 1]
    assert by_pipeline[-2:] == [{"a"}, set()]
    assert (await redis.info("commandstats"))["cmdstat_eval"]["calls"] == -(-len(commands) // commands_per_script)


async def test_a_damaged_key_is_put_aside_and_the_rest_is_read(
    redis: connect.Client, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when each is read by a command of its own."""
    monkeypatch.setattr(pipeline, "SCRIPTED_FROM", 1)
    await redis.sadd(keys.article("a"), "not a hash")
    await redis.hset(keys.article("b"), "title", "Weir")
    read: list[Command] = [("HGET", keys.article(uid), "title") for uid in ("a", "b")]

    assert await pipeline.read_many(redis, read) == [None, "Weir"]


async def test_other_commands_and_none(redis: connect.Client, keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command whose reply redis-py changes is left to it; nothing to read is no round trip."""
    monkeypatch.setattr(pipeline, "SCRIPTED_FROM", 1)
    await redis.hset(keys.article("a"), "title", "Weir")

    assert await pipeline.read_many(redis, [("HGETALL", keys.article("a"))]) == [{"title": "Weir"}]
    assert await pipeline.read_many(redis, []) == []
