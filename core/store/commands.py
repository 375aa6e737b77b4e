"""Redis commands as values: what stores return for a commit to run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

Word = str | int | float
Command = tuple[Word, ...]
"""One Redis command as its words; stores return lists of them for a commit."""

WORDS_PER_COMMAND = 2_000
"""Lua's unpack ends at about 8,000 values."""


def flat(fields: Mapping[str, Word]) -> list[Word]:
    """Return `field value field value …`, as HSET wants it."""
    return [*chain.from_iterable(fields.items())]


def batched(head: Sequence[Word], members: Sequence[Word], words_per_member: int = 1) -> list[Command]:
    """Cut `SADD key a b c …` into commands that the script can unpack."""
    step = WORDS_PER_COMMAND // words_per_member * words_per_member
    return [(*head, *members[i : i + step]) for i in range(0, len(members), step)]


def as_words(commands: Iterable[Command]) -> list[list[str]]:
    """Return the commands as the scripts take them."""
    return [list(map(str, command)) for command in commands]
