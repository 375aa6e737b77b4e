"""Leases, and the one script through which leased work becomes visible.

A worker holds a token; the commit runs its commands only while that token is still on the lease, then drops the
lease and leaves a mark. So a late writer is refused, and a resend after a lost reply changes nothing and is told the
truth (design §6.5, §6.6).
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from redis.asyncio.client import Pipeline
from redis.exceptions import RedisError

from core.keys import Keys
from core.stores.connect import Client

Word = str | int | float
Command = tuple[Word, ...]
"""One Redis command as its words; stores return lists of them."""

LEASE_SECONDS = 60.0
"""A dead worker's work is free again after this; a living one renews (`Leases.keep_alive`)."""
RENEW_EVERY_SECONDS = 15.0
CRASH_MEMORY_SECONDS = 3 * 86_400
DONE_MILLISECONDS = 60_000
"""Longer than redis-py tries again."""
WORDS_PER_COMMAND = 2_000
"""Lua's unpack ends at about 8,000 values."""

# KEYS[1] lease, KEYS[2] crash counter · ARGV[1] token, ARGV[2] milliseconds, ARGV[3] life of the counter.
# 0 = somebody else has it; else how many workers took it without an end, this one included. Asked again with the
# same token, nothing is counted.
_ACQUIRE = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
if holder then return tonumber(redis.call('GET', KEYS[2]) or 1) end
local taken = redis.call('INCR', KEYS[2])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return taken
"""

# KEYS leases · ARGV[1] token, ARGV[2] milliseconds. Only what is still ours is renewed.
_RENEW = """
for _, lease in ipairs(KEYS) do
  if redis.call('GET', lease) == ARGV[1] then redis.call('PEXPIRE', lease, ARGV[2]) end
end
return 1
"""

# KEYS[1] done marker, then leases · ARGV[1] token, ARGV[2] the commands as JSON, ARGV[3] life of the marker.
# 1 = written, now or by an earlier copy of this very call; 0 = a lease is not ours. Without leases: written once.
_COMMIT = """
if redis.call('EXISTS', KEYS[1]) == 1 then return 1 end
for i = 2, #KEYS do
  if redis.call('GET', KEYS[i]) ~= ARGV[1] then return 0 end
end
for _, command in ipairs(cjson.decode(ARGV[2])) do
  redis.call(unpack(command))
end
redis.call('SET', KEYS[1], '1', 'PX', ARGV[3])
if #KEYS > 1 then redis.call('DEL', unpack(KEYS, 2)) end
return 1
"""


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
        pipe.eval(_ACQUIRE, 2, *lease.keys, self._keys.crashes(item), *map(str, words))
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

    async def commit(self, lease: Lease, commands: Iterable[Command]) -> bool:
        """Run the commands in one step if the lease is still ours; False when it is not, and nothing was written."""
        self._held.pop(lease.token, None)
        return await self._run(lease, [*commands, ("DEL", *map(self._keys.crashes_of, lease.keys))])

    async def run(self, commands: Iterable[Command]) -> None:
        """Run the commands in one step and once, whatever is lost on the way; for what needs no lease."""
        await self._run(Lease((), new_token()), commands)

    async def _run(self, lease: Lease, commands: Iterable[Command]) -> bool:
        # One JSON value: hundreds of words as arguments of their own cost the client more than all else in a commit.
        packed = msgspec.json.encode([[str(word) for word in command] for command in commands])
        keys = (self._keys.done(lease.token), *lease.keys)
        answer = await self._client.eval(_COMMIT, len(keys), *keys, lease.token, packed, str(DONE_MILLISECONDS))
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
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
            with contextlib.suppress(RedisError, OSError):
                await self.renew()

    async def _renew_forever(self) -> None:
        while True:
            await asyncio.sleep(RENEW_EVERY_SECONDS)
            with contextlib.suppress(RedisError, OSError):  # whoever works will meet the same trouble and tell
                await self.renew()

    async def renew(self) -> None:
        """Another full life for everything we hold; and what could not be given back is."""
        while self._to_release:
            await self.commit(self._to_release[-1], ())
            self._to_release.pop()
        for token, keys in list(self._held.items()):
            await _eval(self._client, _RENEW, sorted(keys), token, int(LEASE_SECONDS * 1000))


async def _eval(client: Client, script: str, keys: Sequence[str], *words: Word) -> int:
    # EVAL by text costs some bytes more than EVALSHA and never meets NOSCRIPT after a server restart.
    # redis-py types its reply as `str`, whatever the script returns.
    return cast(int, await client.eval(script, len(keys), *keys, *map(str, words)))


def batched(head: Sequence[Word], members: Sequence[Word], words_per_member: int = 1) -> list[Command]:
    """`SADD key a b c …` cut into commands that the script can unpack."""
    step = WORDS_PER_COMMAND // words_per_member * words_per_member
    return [(*head, *members[i : i + step]) for i in range(0, len(members), step)]
