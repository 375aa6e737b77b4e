"""Redis clients that one damaged key does not stop: the key is put into quarantine, logged, and the command sent again.

Two of them: the stores' is asynchronous and decoded, RQ's synchronous and in bytes (docs/architecture.md#two-clients).
Without them one key of another type would end every pass of every worker.
"""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import redis as sync_redis
import redis.asyncio as redis
from redis.asyncio.client import Pipeline
from redis.client import Pipeline as SyncPipeline
from redis.exceptions import ResponseError

from core.keys import Keys
from core.registry.record import ARTICLES_SOURCE, URLS_SOURCE
from core.store import rq_keys
from core.store.key_families import KeyFamilies, key_families
from core.store.quarantine import MOVE, QUARANTINE_SECONDS, Quarantine

log = logging.getLogger("queue")

MOST_TRIES = 10
MOST_MEMBERS = 5_000
MOST_SUSPECTS = 50_000
_DAMAGE = ("WRONGTYPE", "is not an integer", "is not a valid float", "attempt to ", "Wrong type", "stream ID")
_SCRIPTS = ("EVAL", "EVALSHA")


class GuardedClient(redis.Redis):
    """The client of the stores; `guard` tells it which keys are ours."""

    our_keys = Keys()
    is_read_only = False
    """Nothing is quarantined: to a command, a key of another type is not there."""

    def guard(self, our_keys: Keys, *, is_read_only: bool = False) -> GuardedClient:
        """Set the names of this deployment's keys, and whether damaged ones may be quarantined."""
        self.our_keys, self.is_read_only = our_keys, is_read_only
        return self

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send one command; if it fails over a damaged key, again without that key."""
        try:
            return await super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
        except ResponseError as error:
            return await self.retry_without_damage(args, options, error)

    async def retry_without_damage(self, args: Sequence[Any], options: Mapping[str, Any], error: ResponseError) -> Any:
        """Put aside what made a command fail and send it again; raise the error if that is not the reason."""
        plain, families = _Unguarded(self), key_families(self.our_keys)
        if self.is_read_only:
            if str(args[0]).upper() in _SCRIPTS or "WRONGTYPE" not in str(error):
                raise error
            return await plain.execute_command(args[0], self.our_keys.quarantined("nothing"), *args[2:], **options)
        quarantine = Quarantine(plain, self.our_keys, families)
        is_last = False
        for _ in range(MOST_TRIES):
            if is_last or not any(sign in str(error) for sign in _DAMAGE):
                break
            # Nothing to quarantine: another process may just have done it, so it is tried once more all the same.
            is_last = not await quarantine.put_aside(await _suspects(plain, families, args))
            try:
                return await plain.execute_command(*args, **options)
            except ResponseError as again:
                error = again
        raise error

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        """Return a pipeline whose commands are guarded, each for itself."""
        return _GuardedPipeline(self, transaction, shard_hint)


class _GuardedPipeline(Pipeline):
    def __init__(self, client: GuardedClient, transaction: bool, shard_hint: str | None) -> None:
        super().__init__(client.connection_pool, client.response_callbacks, transaction, shard_hint)
        self._guarded = client

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Send all commands; unless errors are wanted as replies, repeat those that failed over a damaged key."""
        commands = list(self.command_stack)
        replies = await super().execute(raise_on_error=False)
        if not raise_on_error:
            return replies
        for place, reply in enumerate(replies):
            if isinstance(reply, ResponseError):
                args, options = commands[place]
                try:
                    replies[place] = await self._guarded.retry_without_damage(args, options, reply)
                except ResponseError as error:
                    replies[place] = error
        self.raise_first_error(commands, replies)
        return replies


class _Unguarded:
    """The same connection pool without the guard, which would call itself."""

    def __init__(self, client: GuardedClient) -> None:
        self._client = client

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        return await super(GuardedClient, self._client).execute_command(*args, **options)  # type: ignore[no-untyped-call]


# ── which keys a failed command may have met ──


async def _suspects(client: _Unguarded, families: KeyFamilies, args: Sequence[Any]) -> list[str]:
    """Return the keys that a command names. A script also builds keys from a prefix and an id it was given or read."""
    words = list(dict.fromkeys(_words(args[1:])))
    named = [word for word in words if families.of(word)]
    if str(args[0]).upper() not in _SCRIPTS:
        return named
    heads = [word for word in words if word in families.heads]
    names = [word for word in words if word not in heads and word not in named]
    for key in named[:MOST_MEMBERS]:
        names += await _members(client, families.type_of(key), key)
    made = (head + name for head in heads for name in dict.fromkeys(names))
    return [*named, *await _source_keys(client, families), *itertools.islice(made, MOST_SUSPECTS)]


async def _source_keys(client: _Unguarded, families: KeyFamilies) -> list[str]:
    """Return all keys of all sources: some scripts learn from a record which of them they need."""
    names = {ARTICLES_SOURCE, URLS_SOURCE}
    for lists in (families["sources"], families["sources_due"]):  # one of them may be damaged, too
        names.update(await _members(client, lists.type, lists.head))
    return [family.head + name + family.tail for name in names for family in families if family.tail]


def _words(args: Iterable[Any]) -> Iterator[str]:
    for word in map(_text, args):
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


async def _members(client: _Unguarded, kind: str, key: str) -> list[str]:
    command = {"zset": ("ZRANGE", key, 0, MOST_MEMBERS), "set": ("SRANDMEMBER", key, MOST_MEMBERS)}.get(kind)
    if command is None:
        return []
    try:
        reply = await client.execute_command(*command)
    except ResponseError:  # it is itself of another type, and a suspect
        return []
    return [_text(member) for member in reply or ()]


def _text(word: object) -> str:
    return word.decode("utf-8", "surrogateescape") if isinstance(word, bytes) else str(word)


# ── RQ's client ──


class GuardedQueueClient(sync_redis.Redis):
    """The client of RQ; only keys of another type than RQ gives them are quarantined."""

    our_keys = Keys()

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send one command; if it fails over keys of another type, again without them."""
        try:
            return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
        except ResponseError as error:
            return self.retry_without_damage(args, options, error)

    def retry_without_damage(self, args: Sequence[Any], options: Mapping[str, Any], error: ResponseError) -> Any:
        """Put aside what made a command fail and send it again; raise the error if that is not the reason."""
        is_last = False
        for _ in range(MOST_TRIES):
            if is_last or "WRONGTYPE" not in str(error):
                break
            # Nothing to quarantine: another process may just have done it, so it is tried once more all the same.
            is_last = not self.put_aside(self._suspects(args))
            try:
                return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
            except ResponseError as again:
                error = again
        raise error

    def mistyped(self, names: Sequence[str]) -> list[str]:
        """Return those of RQ's keys that are of another type than RQ gives them; nothing is changed."""
        pipe = self.pipeline(transaction=False)
        for name in names:
            pipe.type(name)
        pairs = zip(names, map(_text, pipe.execute()), strict=True)
        return [name for name, kind in pairs if kind not in ("none", rq_keys.type_of(name))]

    def put_aside(self, names: Iterable[str]) -> list[str]:
        """Put aside those of RQ's keys that are of another type than RQ gives them; log and return them."""
        typed = {name: rq_keys.type_of(name) for name in names}
        pairs = [
            word for name, kind in typed.items() if kind for word in (name.encode("utf-8", "surrogateescape"), kind)
        ]
        if not pairs:
            return []
        place = (self.our_keys.quarantine, self.our_keys.quarantined(""), QUARANTINE_SECONDS)
        reply = super().execute_command("EVAL", MOVE, 0, *place, *pairs)  # type: ignore[no-untyped-call]
        moved = [_text(name) for name in cast(list[bytes], reply)]
        for name in moved:
            log.warning("⚠️ Put aside, as it is of another type than RQ's keys of this name → %s", name)
        return moved

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> SyncPipeline:
        """Return a pipeline whose commands are guarded, each for itself."""
        return _GuardedQueuePipeline(self, transaction, shard_hint)

    def _suspects(self, args: Sequence[Any]) -> list[str]:
        """Return the keys that a command names; a script also builds the keys of jobs from ids that it reads."""
        words = [_text(arg) for arg in args[1:]]
        named = [word for word in words if word != rq_keys.JOB_HEAD and rq_keys.type_of(word)]
        if str(args[0]).upper() not in _SCRIPTS:
            return named
        return [*named, *(rq_keys.JOB_HEAD + job_id for name in named for job_id in self._members(name))]

    def _members(self, name: str) -> list[str]:
        command = {"zset": "ZRANGE", "list": "LRANGE"}.get(rq_keys.type_of(name))
        if command is None:
            return []
        try:
            reply = super().execute_command(command, name, 0, MOST_MEMBERS)  # type: ignore[no-untyped-call]
        except ResponseError:  # it is itself of another type, and a suspect
            return []
        return [_text(member) for member in cast(list[bytes], reply)]


class _GuardedQueuePipeline(SyncPipeline):
    def __init__(self, client: GuardedQueueClient, transaction: bool, shard_hint: str | None) -> None:
        super().__init__(client.connection_pool, client.response_callbacks, transaction, shard_hint)
        self._guarded = client

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Send all commands; unless errors are wanted as replies, repeat those that failed over a damaged key."""
        commands = list(self.command_stack)
        replies = super().execute(raise_on_error=False)
        if not raise_on_error:
            return replies
        for place, reply in enumerate(replies):
            if isinstance(reply, ResponseError):
                args, options = cast(tuple[Sequence[Any], Mapping[str, Any]], commands[place])
                try:
                    replies[place] = self._guarded.retry_without_damage(args, options, reply)
                except ResponseError as error:
                    replies[place] = error
        self.raise_first_error(commands, replies)  # type: ignore[no-untyped-call]
        return replies

    def immediate_execute_command(self, *args: Any, **options: Any) -> Any:
        """Read while keys are watched; if it fails over a damaged key, again by another connection."""
        try:
            return super().immediate_execute_command(*args, **options)  # type: ignore[no-untyped-call]
        except ResponseError as error:
            return self._guarded.retry_without_damage(args, options, error)
