"""Find a run by what a person typed, and list what it has left to do."""

from __future__ import annotations

from core.errors import FreshetError
from core.keys import Keys
from core.runs.io.run_store import KEPT, RunStore
from core.runs.run import WITH_ITEMS, Run
from core.store import connect
from core.store.connect import Client, texts
from core.store.pipeline import read_many

MOST_NAMED = 5
LAST = "last"


class RunLookup:
    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._runs = RunStore(client, keys)

    async def find(self, name: str) -> Run:
        """Return the run of this id, of an id that begins or ends like this, or the `last` one.

        Raises FreshetError if there is none, or more than one.
        """
        now = await connect.now(self._client)
        run = await self._runs.read(name, now) if name else None
        if run:
            return run
        if name == LAST and (newest := await self._runs.newest(1, now)):
            return newest[0]
        ids = texts(await self._client.zrange(self._keys.runs, 0, KEPT - 1, desc=True)) if name else []
        matching = await self._runs.read_some([one for one in ids if one.startswith(name) or one.endswith(name)], now)
        if len(matching) > 1:
            some = ", ".join(one.id for one in matching[:MOST_NAMED])
            raise FreshetError(f"{name} may be any of {len(matching)} runs: {some}. Give more of the id.")
        return matching[0] if matching else await self._runs.require(name, now)

    async def left(self, run: Run, most: int) -> list[str]:
        """Return the first URLs that a run has left: due in its source, or in those of its parts, or asked for."""
        now = await connect.now(self._client)
        runs = [run] if run.source else await self._runs.children(run.id, now)
        places = [self._keys.due(sid) for sid in dict.fromkeys(one.source for one in runs if one.source)]
        places += [self._keys.run_items(run.id)] if run.kind in WITH_ITEMS else []
        urls: list[str] = []
        for place in places:
            room = most - len(urls)
            ids = texts(await self._client.zrange(place, "-inf", str(now), byscore=True, offset=0, num=room))
            rows = await read_many(self._client, [("HGET", self._keys.item(one), "displaySource") for one in ids])
            urls += [str(url) for url in rows if url]
        return urls[:most]
