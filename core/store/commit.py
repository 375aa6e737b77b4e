"""Leases, and the one script through which leased work becomes visible.

A worker holds a token; the commit runs its commands only while that token is still on the lease, then drops the
lease and leaves a mark. So a late writer is refused, and a resend after a lost reply changes nothing and is told the
truth (design §6.5, §6.6).
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Any, cast

from redis.asyncio.client import Pipeline
from redis.exceptions import RedisError

from core.keys import Keys
from core.store import cancellation, commit_scripts
from core.store.connect import Client
from core.store.packing import packed_json

Word = str | int | float
Command = tuple[Word, ...]
"""One Redis command as its words; stores return lists of them."""

LEASE_SECONDS = 60.0
"""A dead worker's work is free again after this; a living one renews (`Leases.keep_alive`)."""
RENEW_EVERY_SECONDS = 15.0
RENEWED_PER_CALL = 1_000
"""Leases in one call; more would keep the server from everybody else for too long."""
CRASH_MEMORY_SECONDS = 3 * 86_400
DONE_MILLISECONDS = 60_000
"""Longer than redis-py tries again."""
WORDS_PER_COMMAND = 2_000
"""Lua's unpack ends at about 8,000 values."""


def new_token() -> str:
    """A name for one piece of work that nobody else has."""
    return secrets.token_hex(8)


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on something, until it ends by itself. Several may share a token and are committed together."""

    keys: tuple[str, ...]
    token: str

    def with_key(self, key: str) -> Lease:
        """This lease and another one of the same token."""
        return Lease((*self.keys, key), self.token)


class Answer(StrEnum):
    """What became of one work of many."""

    REFUSED = "0"
    WRITTEN = "1"
    MOVED_ON = "2"
    """The record is not what the work expected; the lease is still ours."""


@dataclass(frozen=True, slots=True)
class Work:
    """Commands under a lease, written only if a record still says what it said."""

    lease: Lease
    commands: Sequence[Command]
    expected: tuple[str, ...] = ()
    """Key, field and value of a hash, once or more; a missing field counts as `0`."""


class Leases:
    """Takes leases and commits under them."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._held: dict[str, set[str]] = {}
        """Token → lease keys that we hold and renew."""
        self._to_release: list[Lease] = []

    async def acquire(self, item: str, token: str = "", seconds: float = LEASE_SECONDS) -> tuple[Lease, int] | None:
        """The lease of an item and the number of workers that took it since the last commit; None if it is taken.

        The number is raised before the work: an item that kills its workers is found by it.
        """
        acquired, _ = await self.acquire_and(lambda pipe: None, item, token, seconds)
        return acquired

    async def acquire_and(
        self, ask: Callable[[Pipeline], object], item: str, token: str = "", seconds: float = LEASE_SECONDS
    ) -> tuple[tuple[Lease, int] | None, list[Any]]:
        """The same, and in the same round trip the answers to what `ask` puts into the pipeline behind it."""
        lease = Lease((self._keys.lease(item),), token or new_token())
        pipe = self._client.pipeline(transaction=False)
        words = (lease.token, int(seconds * 1000), CRASH_MEMORY_SECONDS * 1000)
        pipe.eval(commit_scripts.ACQUIRE, 2, *lease.keys, self._keys.crashes(item), *map(str, words))
        ask(pipe)
        try:
            taken, *answers = await pipe.execute()
        except BaseException:
            await self.release(lease)  # stopped in between, the server may have given it to us
            raise
        if not taken:
            return None, answers
        self._held.setdefault(lease.token, set()).update(lease.keys)
        return (lease, int(taken)), answers

    # ── many at once ──

    async def acquire_many(
        self, items: Sequence[str], until_text: str, seconds: float = LEASE_SECONDS
    ) -> list[tuple[Lease, int] | None]:
        """Leases of registry items under one token, in one round trip; with each, how many workers died over it."""
        token = new_token()
        groups = [(self._keys.lease(item), self._keys.crashes(item), self._keys.item(item)) for item in items]
        keys = [key for group in groups for key in group]
        leases = [Lease((lease,), token) for lease, _, _ in groups]
        words = (token, str(int(seconds * 1000)), until_text)
        try:
            reply = await self._client.eval(commit_scripts.ACQUIRE_MANY, len(keys), *keys, *words) if items else []
        except BaseException:
            await self.release_many(leases)
            raise
        taken = cast(list[int], reply)
        ours = {lease.keys[0] for lease, count in zip(leases, taken, strict=True) if count}
        if ours:
            self._held[token] = ours
        return [(lease, count - 1) if count else None for lease, count in zip(leases, taken, strict=True)]

    async def mark(self, item: str) -> None:
        """Something dangerous begins: if we die over it, it is counted."""
        crashes = self._keys.crashes(item)
        await self.run([("INCR", crashes), ("PEXPIRE", crashes, CRASH_MEMORY_SECONDS * 1000)])

    async def unmark(self, item: str) -> None:
        """It was survived: whatever kills us before the commit, this item is not to blame."""
        await self._client.delete(self._keys.crashes(item))

    async def commit_many(self, works: Sequence[Work], also: Iterable[Command] = ()) -> list[Answer]:
        """Each work as `commit` would, all in one step; `also` is written in any case, once."""
        packed = [self._packed(work.lease, work.commands, work.expected) for work in works]
        extra = [["", [], [], _words(also)]] if (also := list(also)) else []
        done = self._keys.done(new_token())
        body = packed_json(packed + extra)
        said = str(await self._client.eval(commit_scripts.COMMIT_MANY, 1, done, body, str(DONE_MILLISECONDS)))
        answers = [Answer(letter) for letter in said[: len(works)]]
        for work, answer in zip(works, answers, strict=True):
            if answer is not Answer.MOVED_ON:
                self._let_go(work.lease)
        return answers

    def _packed(self, lease: Lease, commands: Iterable[Command], expected: tuple[str, ...]) -> list[object]:
        crashes: Command = ("DEL", *map(self._keys.crashes_of, lease.keys))
        return [lease.token, list(lease.keys), list(expected), _words([*commands, crashes])]

    def _let_go(self, lease: Lease) -> None:
        held = self._held.get(lease.token)
        if held is not None:
            held.difference_update(lease.keys)
            if not held:
                del self._held[lease.token]

    async def release_many(self, leases: Sequence[Lease], commands: Sequence[Command] = ()) -> None:
        """Let go of all without a result; never fails, as `release`."""
        giving_back = asyncio.ensure_future(self._release_many(leases, commands))
        giving_back.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(giving_back)

    async def _release_many(self, leases: Sequence[Lease], commands: Sequence[Command]) -> None:
        try:
            await self.commit_many([Work(lease, ()) for lease in leases], commands)
        except (RedisError, OSError):
            self._to_release += leases

    # ── one ──

    async def commit(self, lease: Lease, commands: Iterable[Command]) -> bool:
        """Run the commands in one step if the lease is still ours; False when it is not, and nothing was written."""
        self._let_go(lease)
        return await self._run(lease, [*commands, ("DEL", *map(self._keys.crashes_of, lease.keys))])

    async def run(self, commands: Iterable[Command]) -> None:
        """Run the commands in one step and once, whatever is lost on the way; for what needs no lease."""
        await self._run(Lease((), new_token()), commands)

    async def _run(self, lease: Lease, commands: Iterable[Command]) -> bool:
        # One JSON value: hundreds of words as arguments of their own cost the client more than all else in a commit.
        packed = packed_json(_words(commands))
        # One token may hold many leases, each committed for itself.
        mark = f"{lease.token}-{zlib.crc32(lease.keys[0].encode()):08x}" if lease.keys else lease.token
        keys = (self._keys.done(mark), *lease.keys)
        answer = await self._client.eval(
            commit_scripts.COMMIT, len(keys), *keys, lease.token, packed, str(DONE_MILLISECONDS)
        )
        return bool(answer)

    async def release(self, lease: Lease) -> None:
        """Let go without writing. Never fails: with the server away it is made up for, or the lease ends by itself."""
        giving_back = asyncio.ensure_future(self._release(lease))
        # Whoever awaits us may be cancelled meanwhile; then nobody else asks how it ended.
        giving_back.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(giving_back)

    async def _release(self, lease: Lease) -> None:
        try:
            await self.commit(lease, ())
        except (RedisError, OSError):
            self._to_release.append(lease)

    @contextlib.asynccontextmanager
    async def keep_alive(self) -> AsyncIterator[None]:
        """Renew whatever is held while the work goes on."""
        renewing = asyncio.create_task(self._renew_forever())
        try:
            yield
        finally:
            await cancellation.cancel_and_wait(renewing)
            with contextlib.suppress(RedisError, OSError):
                await self._give_back()

    async def _renew_forever(self) -> None:
        while not cancellation.is_cancelled():
            await asyncio.sleep(RENEW_EVERY_SECONDS)
            with contextlib.suppress(RedisError, OSError):  # whoever works will meet the same trouble and tell
                await self.renew()

    @property
    def held(self) -> int:
        """How many leases we hold."""
        return sum(map(len, self._held.values()))

    async def renew(self) -> None:
        """Another full life for everything we hold, in one call for many; and what could not be given back is.

        What somebody else has meanwhile is let go: its commit will be refused.
        """
        await self._give_back()
        held = [(key, token) for token, keys in self._held.items() for key in keys]
        for start in range(0, len(held), RENEWED_PER_CALL):
            some = held[start : start + RENEWED_PER_CALL]
            keys, tokens = [key for key, _ in some], [token for _, token in some]
            milliseconds = str(int(LEASE_SECONDS * 1000))
            # EVAL by text costs some bytes more than EVALSHA and never meets NOSCRIPT after a server restart.
            said = await self._client.eval(commit_scripts.RENEW, len(keys), *keys, milliseconds, *tokens)
            for (key, token), is_ours in zip(some, cast(list[int], said), strict=True):
                if not is_ours:
                    self._let_go(Lease((key,), token))

    async def _give_back(self) -> None:
        while self._to_release:
            some = self._to_release[:RENEWED_PER_CALL]
            await self.commit_many([Work(lease, ()) for lease in some])
            del self._to_release[: len(some)]


def _words(commands: Iterable[Command]) -> list[list[str]]:
    return [list(map(str, command)) for command in commands]


def flat(fields: Mapping[str, Word]) -> list[Word]:
    """`field value field value …`, as HSET wants it."""
    return [*chain.from_iterable(fields.items())]


def batched(head: Sequence[Word], members: Sequence[Word], words_per_member: int = 1) -> list[Command]:
    """`SADD key a b c …` cut into commands that the script can unpack."""
    step = WORDS_PER_COMMAND // words_per_member * words_per_member
    return [(*head, *members[i : i + step]) for i in range(0, len(members), step)]
