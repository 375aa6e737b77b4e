"""Leases, and the commit: the one script through which leased work is written.

A worker holds a token. The commit runs its commands only while that token is still on the lease, then deletes the
lease and leaves a marker. So a late writer is refused, and a resend after a lost reply changes nothing and gets the
same answer (docs/architecture.md#one-commit).
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import zlib
from collections.abc import AsyncIterator, Iterable, Sequence
from enum import StrEnum
from typing import Any, cast

from redis.exceptions import RedisError

from core.keys import Keys
from core.store import cancellation, commit_scripts
from core.store.commands import Command, as_words
from core.store.connect import Client
from core.store.grouped_calls import GroupedCalls
from core.store.packing import packed_json
from core.value_class import value_class

LEASE_SECONDS = 60.0
"""After this the work of a dead worker is free again; a living one renews its leases (`Leases.keep_alive`)."""
LEASE_MILLISECONDS = int(LEASE_SECONDS * 1000)
RENEW_EVERY_SECONDS = 15.0
RENEWED_PER_CALL = 1_000
"""Leases in one call; more would block the server for too long."""
CRASH_MEMORY_SECONDS = 3 * 86_400
DONE_MILLISECONDS = 60_000
"""Longer than redis-py tries again."""
ACQUIRED_PER_GROUP = 50
COMMITTED_PER_GROUP = 20
"""Articles in one script: about 20 ms of the server's time, in which nobody else is served."""


def new_token() -> str:
    """Return a random token for one piece of work."""
    return secrets.token_hex(8)


@value_class
class Lease:
    """The right to work on something until the lease expires. Several keys may share its token."""

    keys: tuple[str, ...]
    token: str

    def with_key(self, key: str) -> Lease:
        """Return this lease extended by another key of the same token."""
        return Lease((*self.keys, key), self.token)


class CommitResult(StrEnum):
    """What became of one of several commits."""

    LEASE_LOST = "0"
    WRITTEN = "1"
    OUTDATED = "2"
    """A record is not as expected; nothing was written, and the lease is still held."""


@value_class
class Commit:
    """Commands under a lease, written only if some records are still as expected."""

    lease: Lease
    commands: Iterable[Command]
    expected: tuple[str, ...] = ()
    """Key, field and value of a hash, once or more; with an empty field, of a string. What is missing counts as `0`."""


@value_class
class _Acquisition:
    """A lease to acquire, with its crash counter and what is read in the same round trip."""

    lease: Lease
    crashes: str
    read: Sequence[Command]


class Leases:
    """Takes leases and commits under them."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self.prefix = secrets.token_hex(4)
        """How the tokens begin that are made here: those of one process are known by it."""
        self._held: dict[str, set[str]] = {}
        """Token → lease keys that we hold and renew."""
        self._to_release: list[Lease] = []
        self._acquiring = GroupedCalls(self._acquire_group, ACQUIRED_PER_GROUP)
        self._committing = GroupedCalls(self.commit_many, COMMITTED_PER_GROUP)

    # ── acquire ──

    async def acquire(self, item: str, token: str = "") -> tuple[Lease, int] | None:
        """Return the lease of an item and how many workers took it since the last commit; None if it is taken.

        The count is raised before the work, so that it finds an item that kills its workers.
        """
        acquired, _ = await self.acquire_and(item, token)
        return acquired

    async def acquire_and(
        self, item: str, token: str = "", read: Sequence[Command] = ()
    ) -> tuple[tuple[Lease, int] | None, list[Any]]:
        """Acquire, and return with it the replies to commands that read; together with what others acquire now."""
        lease = Lease((self._keys.lease(item),), token or self._new_token())
        try:
            taken, *replies = await self._acquiring.call(_Acquisition(lease, self._keys.crashes(item), read))
        except BaseException:
            await self.release(lease)  # stopped in between, the server may have given it to us
            raise
        if not taken:
            return None, replies
        self._held.setdefault(lease.token, set()).update(lease.keys)
        return (lease, int(taken)), replies

    async def _acquire_group(self, group: Sequence[_Acquisition]) -> list[list[Any]]:
        packed = [[one.lease.keys[0], one.crashes, one.lease.token, as_words(one.read)] for one in group]
        limits = (str(LEASE_MILLISECONDS), str(CRASH_MEMORY_SECONDS * 1000))
        first = group[0].lease.keys[0]
        reply = await self._client.eval(commit_scripts.ACQUIRE, 1, first, *limits, packed_json(packed))
        return [
            [taken, *map(_from_script, one.read, replies)]
            for one, [taken, *replies] in zip(group, cast(list[list[Any]], reply), strict=True)
        ]

    async def acquire_many(self, items: Sequence[str], until_text: str) -> list[tuple[Lease, int] | None]:
        """Acquire leases of registry items under one token; with each comes how many workers died over it."""
        if not items:
            return []
        token, keys = self._new_token(), self._keys
        leases = [Lease((keys.lease(item),), token) for item in items]
        heads = (keys.lease(""), keys.crashes(""), keys.item(""))
        words = (leases[0].keys[0], token, str(LEASE_MILLISECONDS), until_text, packed_json(items), *heads)
        try:
            reply = await self._client.eval(commit_scripts.ACQUIRE_MANY, 1, *words)
        except BaseException:
            await self.release_many(leases)
            raise
        taken = list(zip(leases, cast(list[int], reply), strict=True))
        if ours := {lease.keys[0] for lease, count in taken if count}:
            self._held[token] = ours
        return [(lease, count - 1) if count else None for lease, count in taken]

    def _new_token(self) -> str:
        return f"{self.prefix}{new_token()}"

    async def release_of(self, item: str, prefix: str) -> None:
        """Release a lease that a process with this prefix has left behind."""
        await self._client.eval(commit_scripts.RELEASE_OF, 1, self._keys.lease(item), prefix)

    async def count_crash(self, item: str) -> None:
        """Count a crash before a dangerous step; `clear_crashes` takes it back when the step was survived."""
        crashes = self._keys.crashes(item)
        await self.run([("INCR", crashes), ("PEXPIRE", crashes, CRASH_MEMORY_SECONDS * 1000)])

    async def clear_crashes(self, item: str) -> None:
        """Forget the crashes of an item: whatever kills us from now on, it is not to blame."""
        await self._client.delete(self._keys.crashes(item))

    # ── commit ──

    async def commit(self, lease: Lease, commands: Iterable[Command]) -> bool:
        """Run the commands in one step if the lease is still ours; False when it is not, and nothing was written."""
        self._drop(lease)
        # One token may hold many leases, each committed for itself; a second call for one gets the first one's answer.
        marker = f"{lease.token}-{zlib.crc32(lease.keys[0].encode()):08x}"
        return await self._write([self._packed(Commit(lease, commands))], marker) == CommitResult.WRITTEN

    async def run(self, commands: Iterable[Command]) -> None:
        """Run the commands in one step and once, whatever is lost on the way; for what needs no lease."""
        await self._write([_without_lease(commands)], new_token())

    async def commit_many(self, commits: Sequence[Commit], also: Iterable[Command] = ()) -> list[CommitResult]:
        """Make several commits in one step; `also` is written in any case, once."""
        packed = [self._packed(commit) for commit in commits]
        extra = [_without_lease(also)] if (also := list(also)) else []
        letters = await self._write(packed + extra, new_token())
        results = [CommitResult(letter) for letter in letters[: len(commits)]]
        for commit, result in zip(commits, results, strict=True):
            if result is not CommitResult.OUTDATED:
                self._drop(commit.lease)
        return results

    async def commit_soon(self, commit: Commit) -> CommitResult:
        """Make a commit together with others that come within some milliseconds: each all or nothing."""
        return await self._committing.call(commit)

    async def _write(self, packed: list[list[object]], marker: str) -> str:
        # One JSON value: hundreds of words as arguments of their own cost the client more than all else in a commit.
        done, body = self._keys.done(marker), packed_json(packed)
        return str(await self._client.eval(commit_scripts.COMMIT, 1, done, body, str(DONE_MILLISECONDS)))

    def _packed(self, commit: Commit) -> list[object]:
        lease = commit.lease
        crashes: Command = ("DEL", *map(self._keys.crashes_of, lease.keys))
        return [lease.token, list(lease.keys), list(commit.expected), as_words([*commit.commands, crashes])]

    # ── release ──

    async def release(self, lease: Lease) -> None:
        """Release a lease without a result. Never fails: with the server away it is released later, or expires."""
        await self.release_many([lease])

    async def release_many(self, leases: Sequence[Lease], commands: Sequence[Command] = ()) -> None:
        """Release leases without a result, and run the commands; never fails, as `release`."""
        releasing = asyncio.ensure_future(self._release(leases, commands))
        # Whoever awaits us may be cancelled meanwhile; then nobody else asks how it ended.
        releasing.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(releasing)

    async def _release(self, leases: Sequence[Lease], commands: Sequence[Command]) -> None:
        for lease in leases:
            self._drop(lease)
        await self._acquiring.settled()  # or one that is being acquired right now would be released before it is ours
        try:
            await self.commit_many([Commit(lease, ()) for lease in leases], commands)
        except (RedisError, OSError):
            self._to_release += leases

    async def _release_pending(self) -> None:
        while self._to_release:
            some = self._to_release[:RENEWED_PER_CALL]
            await self.commit_many([Commit(lease, ()) for lease in some])
            del self._to_release[: len(some)]

    def _drop(self, lease: Lease) -> None:
        held = self._held.get(lease.token)
        if held is not None:
            held.difference_update(lease.keys)
            if not held:
                del self._held[lease.token]

    # ── renew ──

    @contextlib.asynccontextmanager
    async def keep_alive(self) -> AsyncIterator[None]:
        """Renew all leases that are held while the block runs."""
        renewing = asyncio.create_task(self._renew_forever())
        try:
            yield
        finally:
            await cancellation.cancel_and_wait(renewing)
            with contextlib.suppress(RedisError, OSError):
                await self._release_pending()

    async def _renew_forever(self) -> None:
        while not cancellation.is_cancelled():
            await asyncio.sleep(RENEW_EVERY_SECONDS)
            with contextlib.suppress(RedisError, OSError):  # the work itself meets the same error and reports it
                await self.renew()

    def holds(self, lease: Lease) -> bool:
        """Return whether a lease is still ours, as far as the last renewal knows."""
        return self._held.get(lease.token, set()).issuperset(lease.keys)

    @property
    def held(self) -> int:
        """How many leases we hold."""
        return sum(map(len, self._held.values()))

    async def renew(self) -> None:
        """Give every held lease its full TTL again, and release what could not be released before.

        A lease that someone else has taken is dropped: its commit will be refused.
        """
        await self._release_pending()
        held = [(key, token) for token, keys in self._held.items() for key in keys]
        for start in range(0, len(held), RENEWED_PER_CALL):
            some = held[start : start + RENEWED_PER_CALL]
            keys, tokens = [key for key, _ in some], [token for _, token in some]
            # EVAL by text costs some bytes more than EVALSHA and never meets NOSCRIPT after a server restart.
            reply = await self._client.eval(commit_scripts.RENEW, len(keys), *keys, str(LEASE_MILLISECONDS), *tokens)
            for (key, token), is_ours in zip(some, cast(list[int], reply), strict=True):
                if not is_ours:
                    self._drop(Lease((key,), token))


def _from_script(command: Command, reply: Any) -> Any:
    """Return the reply as the client gives it for the command alone: a script answers with lists instead of dicts."""
    return dict(zip(reply[::2], reply[1::2], strict=True)) if command[0] == "HGETALL" else reply


def _without_lease(commands: Iterable[Command]) -> list[object]:
    return ["", [], [], as_words(commands)]
