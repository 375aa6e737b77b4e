"""Open the run of one domain's embedding, and track the items that are left of it.

`run:<id>:items` holds its texts that wait, by when they changed. A text is done when it is not in `embed:due` any more,
whoever embedded it. So `texts = embedded + what is left`, at any time.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.keys import Keys
from core.runs.io.run_store import TTL_SECONDS, RunStore
from core.runs.run import Run, RunKind, RunPhase
from core.store.connect import Client, texts

EMBED_COUNTERS = ("texts", "embedded")

# KEYS: items of the run, texts to embed, run. Takes out and counts what is embedded; returns how many are left.
_SETTLE = """
local call, items, due, run = redis.call, KEYS[1], KEYS[2], KEYS[3]
local before = call('ZCARD', items)
local left = before > 0 and call('ZINTERSTORE', items, 2, items, due, 'WEIGHTS', 1, 0) or 0
if before > left then call('HINCRBY', run, 'embedded', before - left) end
"""
SETTLE = f"{_SETTLE}return left\n"

# KEYS as above, then the items of each source · ARGV[1] TTL. Adds what waits of these; returns how many are left.
ADD = f"""
{_SETTLE}
local added = 0
for i = 4, #KEYS do
  for _, id in ipairs(call('ZINTER', 2, KEYS[i], due)) do
    added = added + call('ZADD', items, 'NX', call('ZSCORE', due, id), id)
  end
end
if added > 0 then call('HINCRBY', run, 'texts', added) end
call('EXPIRE', items, ARGV[1])
return left + added
"""


class EmbedRunItems:
    """What is left of an embedding."""

    def __init__(self, client: Client, keys: Keys, run_id: str) -> None:
        self._client = client
        self._items = keys.run_items(run_id)
        self._keys = (self._items, keys.embed_due, keys.run(run_id))
        self._refs = keys.refs

    async def add(self, sources: Sequence[str]) -> int:
        """Add what waits of these sources; return how many are left."""
        keys = (*self._keys, *map(self._refs, sources))
        return int(await self._client.eval(ADD, len(keys), *keys, str(TTL_SECONDS)))

    async def settle(self) -> int:
        """Count what was embedded meanwhile, by whom it may be; return how many are left."""
        return int(await self._client.eval(SETTLE, len(self._keys), *self._keys))

    async def newest(self, first: int, count: int) -> list[str]:
        """Return texts that are left, those that changed last first, from this place on."""
        return texts(await self._client.zrange(self._items, first, first + count - 1, desc=True))


async def open_embed(runs: RunStore, now: float, domain: str, started_by: str) -> Run:
    """Return the open embedding of a domain, or a new one."""
    run, is_new = await runs.open(RunKind.EMBED, now, domain=domain, counters=EMBED_COUNTERS, started_by=started_by)
    if is_new:
        await runs.update(run.id, {"phase": str(RunPhase.INDEXING)})
    return run
