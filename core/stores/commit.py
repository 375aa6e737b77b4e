"""Leases, and the one script through which leased work becomes visible.

A worker holds a token; the commit runs its commands only while that token is still on the lease, then drops the
lease. So a late writer is refused, and a resend after a lost reply changes nothing (design §6.5, §6.6).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import cast

from core.stores.connect import Client

Word = str | int | float
Command = tuple[Word, ...]
"""One Redis command as its words; stores return lists of them."""

WORDS_PER_COMMAND = 2_000
"""Lua's unpack ends at about 8,000 values."""

# KEYS[1] lease · ARGV[1] token, ARGV[2] milliseconds. 1 = ours now, also when the same token asks again.
_ACQUIRE = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""

# KEYS[1] lease · ARGV[1] token, then per command: number of words, words. 1 = written, 0 = the lease is not ours.
_COMMIT = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local i = 2
while i <= #ARGV do
  local n = tonumber(ARGV[i])
  redis.call(unpack(ARGV, i + 1, i + n))
  i = i + n + 1
end
redis.call('DEL', KEYS[1])
return 1
"""


def new_token() -> str:
    """A name for one piece of work that nobody else has."""
    return secrets.token_hex(8)


async def acquire(client: Client, lease_key: str, token: str, seconds: float) -> bool:
    """Take the lease if it is free or already ours."""
    # EVAL by text costs ~100 bytes more than EVALSHA and never meets NOSCRIPT after a server restart.
    return bool(await _eval(client, _ACQUIRE, lease_key, token, int(seconds * 1000)))


async def commit(client: Client, lease_key: str, token: str, commands: Iterable[Command]) -> bool:
    """Run the commands in one step if the lease is still ours; False when it is not, and nothing was written."""
    words: list[Word] = []
    for command in commands:
        words += (len(command), *command)
    return bool(await _eval(client, _COMMIT, lease_key, token, *words))


async def release(client: Client, lease_key: str, token: str) -> None:
    """Let go without writing."""
    await commit(client, lease_key, token, ())


async def _eval(client: Client, script: str, key: str, *words: Word) -> int:
    # redis-py types EVAL's reply as `str`, whatever the script returns.
    return cast(int, await client.eval(script, 1, key, *map(str, words)))


def batched(head: Sequence[Word], members: Sequence[Word], words_per_member: int = 1) -> list[Command]:
    """`SADD key a b c …` cut into commands that the script can unpack."""
    step = WORDS_PER_COMMAND // words_per_member * words_per_member
    return [(*head, *members[i : i + step]) for i in range(0, len(members), step)]
