"""Store what sources have lost: texts that went within a day, and whether a person agreed to more."""

from __future__ import annotations

from collections.abc import Sequence

from core.keys import Keys
from core.sources.io.domain_store import DomainStore
from core.sources.source_record import SourceState
from core.store import connect
from core.store.commands import Command
from core.store.connect import Client, texts

DAY_SECONDS = 86_400.0
IF_RIGHT = "If that is right:"
"""Before the command that answers a stopped loss guard."""


class SourceLosses:
    """Reads and writes `source:<sid>:lost`, and the fields of a source about its losses."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def count(self, sid: str, now: float) -> tuple[int, int]:
        """Return how many items the source has lost within a day, and how many it has left."""
        lost = texts(await self._client.zrange(self._keys.lost(sid), str(now - DAY_SECONDS), "+inf", byscore=True))
        listed = int(await self._client.zcard(self._keys.refs(sid)))
        # What 404 has hidden is still listed, what was unlisted is not: neither is counted twice.
        scores = await self._client.zmscore(self._keys.refs(sid), lost) if lost else []
        return len(lost), listed - sum(score is not None for score in scores)

    async def not_lost(self, sid: str, item_ids: Sequence[str], now: float) -> list[str]:
        """Return those of these that the source has not lost within a day."""
        scores = await self._client.zmscore(self._keys.lost(sid), list(item_ids)) if item_ids else []
        pairs = zip(item_ids, scores, strict=True)
        return [item_id for item_id, lost_ts in pairs if lost_ts is None or lost_ts < now - DAY_SECONDS]

    async def hold(self, state: SourceState, why: str) -> str:
        """Note that nothing is removed before a person agrees; return the sentence that tells them."""
        command = f"python -m scripts.domain crawl {state.record.domain} --yes"
        message = f"{state.record.sid}: {why}. Nothing more is removed. {IF_RIGHT} {command}"
        await self._client.hset(self._keys.source(state.record.sid), "held", message)
        return message

    def record(self, sid: str, item_id: str, now: float) -> list[Command]:
        key = self._keys.lost(sid)
        return [
            ("ZADD", key, now, item_id),
            ("ZREMRANGEBYSCORE", key, "-inf", now - DAY_SECONDS),
            ("EXPIRE", key, int(DAY_SECONDS)),
        ]

    def undo(self, sid: str, item_id: str) -> Command:
        return ("ZREM", self._keys.lost(sid), item_id)

    async def allow(self, sid: str, until: float) -> None:
        """Note that a person agreed to losses until then."""
        async with self._client.pipeline(transaction=True) as pipe:
            pipe.hset(self._keys.source(sid), "loss_allowed_until", f"{until:.3f}")
            pipe.hdel(self._keys.source(sid), "held")
            await pipe.execute()


async def approve_losses(client: Client, keys: Keys, domain_id: str, source: str | None = None) -> Sequence[str]:
    """Let all sources of a domain, or one of them, lose what their next crawls find missing; return their ids.

    Raises NotFound if there is no such domain or source.
    """
    domain = await DomainStore(client, keys).require(domain_id)
    sids = [domain.source_id(source)] if source is not None else list(domain.sources)
    until, losses = await connect.now(client) + DAY_SECONDS, SourceLosses(client, keys)
    for sid in sids:
        await losses.allow(sid, until)
    return sids
