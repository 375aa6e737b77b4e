"""A client that one damaged key does not stop: the key is put aside, named in the log, and the command sent again."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import redis.asyncio as redis
from redis.asyncio.client import Pipeline
from redis.exceptions import ResponseError

from core.keys import Keys
from core.registry.record import ARTICLES_SOURCE, URLS_SOURCE
from core.store.key_families import KeyFamilies
from core.store.quarantine import Quarantine

MOST_TRIES = 10
MOST_MEMBERS = 5_000
MOST_SUSPECTS = 50_000
_DAMAGE = ("WRONGTYPE", "is not an integer", "is not a valid float", "attempt to ", "Wrong type", "stream ID")
_SCRIPTS = ("EVAL", "EVALSHA")


class GuardedClient(redis.Redis):
    """Reads and writes as any client; see `guard`."""

    spelling = Keys()
    only_looks = False
    """Nothing is put aside: to a command, a key of another type is not there."""

    def guard(self, spelling: Keys, *, only_looks: bool = False) -> GuardedClient:
        """Say how this deployment spells its keys, and whether what is damaged may be put aside."""
        self.spelling, self.only_looks = spelling, only_looks
        return self

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """One command; again without what is damaged, if it fails over that."""
        try:
            return await super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
        except ResponseError as error:
            return await self.without_damage(args, options, error)

    async def without_damage(self, args: Sequence[Any], options: Mapping[str, Any], error: ResponseError) -> Any:
        """Put aside what made a command fail and send it again; the error as it was, if that is not the reason."""
        plain, families = _Plain(self), KeyFamilies(self.spelling)
        if self.only_looks:
            return await _without_its_key(plain, self.spelling, args, options, error)
        quarantine = Quarantine(plain, self.spelling, families)
        is_last = False
        for _ in range(MOST_TRIES):
            if is_last or not any(sign in str(error) for sign in _DAMAGE):
                break
            # Nothing to put aside: somebody else may just have done it, so it is tried once more all the same.
            is_last = not await quarantine.put_aside(await _suspects(plain, families, args))
            try:
                return await plain.execute_command(*args, **options)
            except ResponseError as again:
                error = again
        raise error

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        """Commands sent together; each of them is guarded."""
        return _GuardedPipeline(self, transaction, shard_hint)


class _GuardedPipeline(Pipeline):
    def __init__(self, client: GuardedClient, transaction: bool, shard_hint: str | None) -> None:
        super().__init__(client.connection_pool, client.response_callbacks, transaction, shard_hint)
        self._guarded = client

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """All commands; those that fail over a damaged key once more, each for itself, unless errors are answers."""
        if not raise_on_error:
            return await super().execute(raise_on_error=False)
        commands = list(self.command_stack)
        answers = await super().execute(raise_on_error=False)
        for place, answer in enumerate(answers):
            if isinstance(answer, ResponseError):
                answers[place] = await self._again(*commands[place], answer)
        self.raise_first_error(commands, answers)
        return answers

    async def _again(self, args: Sequence[Any], options: Mapping[str, Any], error: ResponseError) -> Any:
        try:
            return await self._guarded.without_damage(args, options, error)
        except ResponseError as still:
            return still


class _Plain:
    """The same connection pool without the guard, which would call itself."""

    def __init__(self, client: GuardedClient) -> None:
        self._client = client

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        return await super(GuardedClient, self._client).execute_command(*args, **options)  # type: ignore[no-untyped-call]


async def _without_its_key(
    client: _Plain, spelling: Keys, args: Sequence[Any], options: Mapping[str, Any], error: ResponseError
) -> Any:
    if str(args[0]).upper() in _SCRIPTS or "WRONGTYPE" not in str(error):
        raise error
    return await client.execute_command(args[0], spelling.quarantined("nothing"), *args[2:], **options)


# ── which keys can it have been? ────────────────────────────────────────────────────────────────


async def _suspects(client: _Plain, families: KeyFamilies, args: Sequence[Any]) -> list[str]:
    """Keys that a command names. A script also makes keys of a beginning and an id it was given or has read."""
    words = list(dict.fromkeys(_words(args[1:])))
    named = [word for word in words if families.of(word)]
    if str(args[0]).upper() not in _SCRIPTS:
        return named
    heads = [word for word in words if word in families.heads]
    names = [word for word in words if word not in heads and word not in named]
    for key in named[:MOST_MEMBERS]:
        names += await _members(client, families.type_of(key), key)
    made = (head + name for head in heads for name in dict.fromkeys(names))
    return [*named, *await _of_sources(client, families), *itertools.islice(made, MOST_SUSPECTS)]


async def _of_sources(client: _Plain, families: KeyFamilies) -> list[str]:
    """All keys of all sources: some scripts learn from a record which of them they need."""
    sources = families["sources"]
    names = [ARTICLES_SOURCE, URLS_SOURCE, *await _members(client, sources.type, sources.head)]
    return [family.head + name + family.tail for name in names for family in families if family.tail]


def _words(args: Iterable[Any]) -> Iterator[str]:
    for arg in args:
        word = arg.decode("utf-8", "surrogateescape") if isinstance(arg, bytes) else str(arg)
        yield word
        if word.startswith(("{", "[")):
            try:
                yield from _leaves(json.loads(word))
            except ValueError:
                continue


def _leaves(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _leaves(one)
    elif isinstance(value, str):
        yield value


async def _members(client: _Plain, kind: str, key: str) -> list[str]:
    command = {"zset": ("ZRANGE", key, 0, MOST_MEMBERS), "set": ("SRANDMEMBER", key, MOST_MEMBERS)}.get(kind)
    if command is None:
        return []
    try:
        reply = await client.execute_command(*command)
    except ResponseError:  # it is itself of another type, and a suspect
        return []
    return [one.decode("utf-8", "surrogateescape") if isinstance(one, bytes) else str(one) for one in reply or ()]
