"""Limits of requests: how many, how deep. Pure: the time comes in as an argument."""

from __future__ import annotations

import re
from collections import OrderedDict

MOST_DEPTH = 32
"""Levels of nesting in a JSON body; ours have three."""
MOST_CLIENTS = 10_000
"""Whose buckets are remembered; the one that asked longest ago is forgotten."""
_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', re.S)


class TokenBuckets:
    """A token bucket per client: each request takes a token, a minute brings `per_minute` of them and no more."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_seconds(self, client: str, now: float) -> float:
        """Take a token and return 0, or return how long it takes until there is one."""
        if not self._per_minute:
            return 0.0
        rate = self._per_minute / 60.0
        tokens, then = self._buckets.pop(client, (float(self._per_minute), now))
        tokens = min(float(self._per_minute), tokens + (now - then) * rate)
        is_allowed = tokens >= 1
        self._buckets[client] = (tokens - is_allowed, now)
        if len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if is_allowed else (1 - tokens) / rate


def json_depth(body: bytes) -> int:
    """Return how deep brackets are nested in a JSON text, without parsing it."""
    depth = deepest = 0
    for found in _STRUCTURE.finditer(body):
        sign = found[0][:1]
        if sign in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif sign in b"]}":
            depth -= 1
    return deepest
