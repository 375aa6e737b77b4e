"""RQ's own keys: how each family is named, and which type its keys have."""

from __future__ import annotations

import re

JOB_HEAD = "rq:job:"
QUEUE_HEAD = "rq:queue:"

# The first that matches. A queue's name holds KEY_PREFIX, and so any character.
_TYPES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), kind)
    for pattern, kind in (
        (r"rq:(queues|workers)", "set"),
        (r"rq:workers:.+", "set"),
        (r"rq:worker:.+", "hash"),
        (r"rq:queue:.+:intermediate:first_seen:.+", "string"),
        (r"rq:queue:.+", "list"),
        (r"rq:(wip|finished|failed|scheduled|deferred|canceled|executions):.+", "zset"),
        (r"rq:job:.+:(dependents|dependencies)", "set"),
        (r"rq:(job|execution):.+", "hash"),
        (r"rq:results:.+", "stream"),
        (r"rq:clean_registries:.+", "string"),
    )
)


def type_of(key: str) -> str:
    """Return the type that a key of RQ must have; empty: it is none of RQ's."""
    return next((kind for pattern, kind in _TYPES if pattern.fullmatch(key)), "")
