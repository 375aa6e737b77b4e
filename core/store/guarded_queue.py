"""RQ's client, which a key of another type does not stop: the key is put aside, and the command sent again.

Else one such key would end every pass of every worker, and nobody would take another job.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from redis import Redis
from redis.client import Pipeline
from redis.exceptions import ResponseError

from core.keys import Keys
from core.store import rq_keys
from core.store.quarantine import MOVE, QUARANTINE_SECONDS

log = logging.getLogger("queue")

MOST_TRIES = 10
MOST_MEMBERS = 5_000
_SCRIPTS = ("EVAL", "EVALSHA")
_MEMBERS = {"zset": "ZRANGE", "list": "LRANGE"}


class GuardedQueueClient(Redis):
    """Reads and writes as any client; keys are put aside as the deployment spells them."""

    spelling = Keys()

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """One command; again without keys of another type, if it fails over them."""
        try:
            return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
        except ResponseError as error:
            return self.without_damage(args, options, error)

    def without_damage(self, args: Sequence[Any], options: Mapping[str, Any], error: ResponseError) -> Any:
        """Put aside what made a command fail and send it again; the error as it was, if that is not the reason."""
        is_last = False
        for _ in range(MOST_TRIES):
            if is_last or "WRONGTYPE" not in str(error):
                break
            # Nothing to put aside: somebody else may just have done it, so it is tried once more all the same.
            is_last = not self.put_aside(self._suspects(args))
            try:
                return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
            except ResponseError as again:
                error = again
        raise error

    def is_mended(self, args: Sequence[Any], error: ResponseError) -> bool:
        """Put aside what made a command fail; whether there was such a key."""
        return "WRONGTYPE" in str(error) and bool(self.put_aside(self._suspects(args)))

    def mistyped(self, names: Sequence[str]) -> list[str]:
        """Those of RQ's keys that are of another type than RQ gives them; nothing is changed."""
        pipe = self.pipeline(transaction=False)
        for name in names:
            pipe.type(name)
        types = [_text(found) for found in pipe.execute()]
        pairs = zip(names, types, strict=True)
        return [name for name, found in pairs if found not in ("none", rq_keys.type_of(name))]

    def put_aside(self, names: Iterable[str]) -> list[str]:
        """Put aside those of RQ's keys that are of another type than RQ gives them; which. Each is named in the log."""
        pairs = [word for name in dict.fromkeys(names) for word in _typed(name)]
        if not pairs:
            return []
        place = (self.spelling.quarantine, self.spelling.quarantined(""), QUARANTINE_SECONDS)
        reply = super().execute_command("EVAL", MOVE, 0, *place, *pairs)  # type: ignore[no-untyped-call]
        moved = [_text(name) for name in cast(list[bytes], reply)]
        for name in moved:
            log.warning("⚠️ Put aside, as it is of another type than RQ's keys of this name → %s", name)
        return moved

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        """Commands sent together; each of them is guarded."""
        return _GuardedPipeline(self, transaction, shard_hint)

    def _suspects(self, args: Sequence[Any]) -> list[str]:
        """Keys that a command names; a script also makes the keys of jobs from ids that it reads."""
        words = [_text(arg) for arg in args[1:]]
        named = [word for word in words if word != rq_keys.JOB_HEAD and rq_keys.type_of(word)]
        if str(args[0]).upper() not in _SCRIPTS:
            return named
        ids = [one for name in named for one in self._members(name)]
        return [*named, *(rq_keys.JOB_HEAD + one for one in ids)]

    def _members(self, name: str) -> list[str]:
        command = _MEMBERS.get(rq_keys.type_of(name))
        if command is None:
            return []
        try:
            reply = super().execute_command(command, name, 0, MOST_MEMBERS)  # type: ignore[no-untyped-call]
        except ResponseError:  # it is itself of another type, and a suspect
            return []
        return [_text(one) for one in cast(list[bytes], reply)]


class _GuardedPipeline(Pipeline):
    def __init__(self, client: GuardedQueueClient, transaction: bool, shard_hint: str | None) -> None:
        super().__init__(client.connection_pool, client.response_callbacks, transaction, shard_hint)
        self._guarded = client

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        """All commands; those that fail over a key of another type once more, each for itself."""
        if not raise_on_error:
            return super().execute(raise_on_error=False)
        commands = list(self.command_stack)
        answers = super().execute(raise_on_error=False)
        for place, answer in enumerate(answers):
            if isinstance(answer, ResponseError):
                args, options = cast(tuple[Sequence[Any], Mapping[str, Any]], commands[place])
                answers[place] = self._again(args, options, answer)
        self.raise_first_error(commands, answers)  # type: ignore[no-untyped-call]
        return answers

    def immediate_execute_command(self, *args: Any, **options: Any) -> Any:
        """What is read while keys are watched; again without a key of another type."""
        try:
            return super().immediate_execute_command(*args, **options)  # type: ignore[no-untyped-call]
        except ResponseError as error:
            if not self._guarded.is_mended(args, error):
                raise
            return super().immediate_execute_command(*args, **options)  # type: ignore[no-untyped-call]

    def _again(self, args: Sequence[Any], options: Mapping[str, Any], error: ResponseError) -> Any:
        try:
            return self._guarded.without_damage(args, options, error)
        except ResponseError as still:
            return still


def _typed(name: str) -> tuple[bytes | str, ...]:
    kind = rq_keys.type_of(name)
    return (name.encode("utf-8", "surrogateescape"), kind) if kind else ()


def _text(word: object) -> str:
    return word.decode("utf-8", "surrogateescape") if isinstance(word, bytes) else str(word)
