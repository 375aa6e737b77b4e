"""Find articles whose registry record is missing, and write it again from the article."""

from __future__ import annotations

from collections.abc import Sequence

from core import ids
from core.doctor.invariants import Finding, Problem, findings_of
from core.keys import Keys
from core.registry.blank_record import blank_record
from core.registry.record import ARTICLES_SOURCE, URLS_SOURCE, Status
from core.sources.io.source_store import SourceStore
from core.store.commands import Command, flat
from core.store.connect import Client
from core.store.event_command import event
from core.store.leases import Commit, CommitResult, Leases
from core.store.pipeline import read_many
from core.urls.normalise import normalise_url

_FIELDS = ("status", "item_id", "url", "final_url", "canonical_url", "content_hash", "categories", "etag", "language")


class RecordRecovery:
    """Finds articles without a record, and writes it again."""

    problems = frozenset({Problem.RECORD_MISSING})

    def __init__(self, client: Client, keys: Keys, strategy: str) -> None:
        """`strategy`: how the registry is partitioned."""
        self._client = client
        self._keys = keys
        self._strategy = strategy
        self._sources = SourceStore(client, keys)

    async def check(self, uids: Sequence[str]) -> list[Finding]:
        """Find those of the articles that can be found and have no record."""
        pipe = self._client.pipeline(transaction=False)
        for uid in uids:
            pipe.hmget(self._keys.article(uid), "status", "item_id")
        replies = await pipe.execute(raise_on_error=False) if uids else []
        # An article of another type is reported as such.
        rows = [reply if isinstance(reply, list) else [None, None] for reply in replies]
        for _, item_id in rows:
            pipe.exists(self._keys.item(item_id or "-"))
        has_record = await pipe.execute(raise_on_error=False) if uids else []
        missing = [
            uid
            for uid, (status, item_id), is_there in zip(uids, rows, has_record, strict=True)
            if status == "success" and item_id and not is_there
        ]
        return findings_of(Problem.RECORD_MISSING, missing)

    async def recheck(self, findings: Sequence[Finding]) -> list[Finding]:
        return await self.check([one.name for one in findings])

    async def repair(self, findings: Sequence[Finding], now: float) -> None:
        """Write the records, unless someone has just done it."""
        leases = Leases(self._client, self._keys)
        for uid in [one.name for one in await self.recheck(findings)]:
            values = await self._client.hmget(self._keys.article(uid), list(_FIELDS))
            article = {name: str(value or "") for name, value in zip(_FIELDS, values, strict=True)}
            taken = await leases.acquire(article["item_id"])
            if taken is None:
                continue
            missing = (self._keys.item(article["item_id"]), "status", "0")
            commit = Commit(taken[0], await self._commands(uid, article, now), missing)
            if (await leases.commit_many([commit]))[0] is CommitResult.OUTDATED:
                await leases.release(taken[0])

    async def _commands(self, uid: str, article: dict[str, str], now: float) -> list[Command]:
        item_id = article["item_id"]
        known = [ARTICLES_SOURCE, URLS_SOURCE, *sorted(await self._sources.ids())]
        scores = await read_many(self._client, [("ZSCORE", self._keys.refs(sid), item_id) for sid in known])
        listing = [sid for sid, score in zip(known, scores, strict=True) if score is not None]
        sources = list(dict.fromkeys([ARTICLES_SOURCE, *listing]))
        record = blank_record(_identity(article), article["final_url"] or article["url"], now, strategy=self._strategy)
        record |= {
            "id": item_id,
            "RowKey": item_id.partition("_")[2],
            "status": str(Status.CRAWLED),
            "contentHash": article["content_hash"],
            "textHash": article["content_hash"],
            "language": article["language"],
            "articleUid": uid,
            "articleUrl": article["url"],
            "articleCategories": article["categories"],
            "sources": ",".join(sources),
        }
        return [
            ("HSET", self._keys.item(item_id), *flat(record)),
            ("SADD", self._keys.status(record["status"]), item_id),
            ("SADD", self._keys.partition(record["PartitionKey"]), item_id),
            *(("ZADD", self._keys.refs(sid), "NX", 0, item_id) for sid in sources),
            *(("ZADD", self._keys.due(sid), f"{now:.3f}", item_id) for sid in sources),
            ("ZADD", self._keys.embed_due, f"{now:.3f}", item_id),
            event(self._keys, "healed", id=item_id),
        ]


def _identity(article: dict[str, str]) -> str:
    """Return the normalised address that the item is named after: the one whose hash is its id."""
    names = [normalise_url(url) for url in (article["url"], article["final_url"], article["canonical_url"]) if url]
    return next((name for name in names if ids.item_id("url", name) == article["item_id"]), names[0])
