"""Read items anew: at once by their validators, or with --force whatever those say.

python -m scripts.reindex ID|UID|URL|PATH    one item, by any of its names
python -m scripts.reindex --category world   the articles of a category
python -m scripts.reindex --domain docs      the items of a domain; --source docs.site: of one source of it
python -m scripts.reindex --host example.org | --status Error | --stale | --all
python -m scripts.reindex --embeddings       all texts into the vector space of the settings, beside the live one;
                                             where EMBEDDER is none, to search by words alone
    --force      ignore validators, hashes and memory; links of the category that failed are tried again too
    --dry-run    tell how many items and requests that is; changes nothing

--stale: what an older version of Freshet read. The registry is marked first, then the workers are woken; what they are
not told the timer brings, so nothing is lost if nobody listens.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from redis.exceptions import RedisError

from core.errors import FreshetError
from core.feeds.io.failed_links import FailedLinks
from core.keys import Keys
from core.models import VectorSpace
from core.registry.io.force import Forcing
from core.registry.io.item_queries import ItemQueries
from core.registry.io.overview import Overview
from core.registry.record import ARTICLES_SOURCE, URLS_SOURCE, Status, iso
from core.runtime import progress
from core.runtime.job_queues import JobQueues
from core.runtime.terminal import echo
from core.search.io.chunk_store import ChunkStore
from core.search.io.embedders import open_embedder
from core.search.io.migrate import Migration, MigrationEstimate
from core.search.io.vector_space import VectorSpaceStore
from core.search.protocols import EmbedderUnavailable
from core.settings import Settings
from core.sources.io.domain_store import DomainStore
from core.sources.io.source_store import SourceStore
from core.store import connect
from core.store.commit import new_token
from core.store.connect import Client
from core.urls.secrets import redact
from scripts import session
from scripts.domain_remove import counted, known
from scripts.tables import table

MOST_JOBS = 10
"""More would only stand in line: the timer brings the rest."""
MOST_HOSTS = 20


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says; one of the first is set."""

    word: str | None = None
    category: str | None = None
    domain: str | None = None
    source: str | None = None
    host: str | None = None
    status: str | None = None
    stale: bool = False
    all: bool = False
    embeddings: bool = False
    force: bool = False
    dry_run: bool = False


@dataclass(slots=True)
class Chosen:
    """What was meant: items in batches, and links that gave none."""

    items: AsyncIterator[list[str]]
    links: AsyncIterator[list[str]]


@dataclass(slots=True)
class Tally:
    """What would be asked for."""

    items: int = 0
    requests: int = 0
    links: set[str] = field(default_factory=set)
    hosts: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)


async def reindex(asked: Asked) -> int:
    """Make them due and wake the workers, or only count them."""
    async with session.open_session() as (settings, keys, client):
        if asked.embeddings:
            return await migrate(settings, keys, client, dry_run=asked.dry_run)
        chosen = await choose(settings, keys, client, asked)
        if asked.dry_run:
            echo(_counted(await _count(keys, client, chosen), asked.force))
            return 0
        return await _mark(settings, keys, client, chosen, asked.force)


# ── choosing ──


async def choose(settings: Settings, keys: Keys, client: Client, asked: Asked) -> Chosen:
    """The items that somebody means; a sentence if there can be none."""
    selecting = ItemQueries(client, keys, settings.tracking_param_prefixes)
    if asked.word is not None:
        return await _one(keys, client, selecting, asked.word, asked.force)
    if asked.category is not None:
        if not await selecting.has_category(asked.category):
            raise FreshetError(
                f"There is no category {asked.category}. `python -m scripts.status` shows what there is."
            )
        links = FailedLinks(client, keys).in_category(asked.category) if asked.force else _these([])
        return Chosen(selecting.of_category(asked.category), links)
    return Chosen(await _many(settings, keys, client, asked), _these([]))


async def _one(keys: Keys, client: Client, selecting: ItemQueries, word: str, force: bool) -> Chosen:
    named = await selecting.named(word, Path.cwd())
    for row in await selecting.rows([named.item_id] if named.item_id else []):
        if not row.sources:
            raise FreshetError(f"{redact(word)} is gone, and no source lists it any more.")
        return Chosen(_these([row.item_id]), _these([]))
    fruitless = await FailedLinks(client, keys).without_article([named.uid] if named.uid else [])
    if fruitless and force:
        return Chosen(_these([]), _these(fruitless))
    if fruitless:
        story = await Overview(client, keys).failure(named.uid)
        why = "/".join(filter(None, (story.code, story.detail))) or "it gave no article"
        raise FreshetError(f"{redact(word)} is a link that was tried ({why}); --force tries it again.")
    raise FreshetError(
        f"{redact(word)} is not in the registry. `python -m scripts.domain add URL` or a feed brings it in."
    )


async def _many(settings: Settings, keys: Keys, client: Client, asked: Asked) -> AsyncIterator[list[str]]:
    selecting = ItemQueries(client, keys)
    if asked.domain is not None:
        return selecting.of_sources((await known(DomainStore(client, keys), asked.domain)).sources)
    if asked.source is not None:
        return selecting.of_sources([await _source(keys, client, asked.source)])
    if asked.host is not None:
        return selecting.of_host(asked.host.lower(), settings.registry_partition_strategy)
    if asked.status is not None:
        return selecting.of_status(_status(asked.status))
    return selecting.stale() if asked.stale else selecting.of_all()


async def _source(keys: Keys, client: Client, sid: str) -> str:
    if sid in (ARTICLES_SOURCE, URLS_SOURCE) or await SourceStore(client, keys).has(sid):
        return sid
    raise FreshetError(f"There is no source {sid}. `python -m scripts.domain list` shows what there is.")


def _status(word: str) -> Status:
    by_name = {str(status).lower(): status for status in Status}
    if word.lower() not in by_name:
        raise FreshetError(f"There is no status {word}; an item is one of {', '.join(Status)}.")
    return by_name[word.lower()]


async def _these(names: list[str]) -> AsyncIterator[list[str]]:
    if names:
        yield names


# ── counting ──


async def _count(keys: Keys, client: Client, chosen: Chosen) -> Tally:
    tally, selecting = Tally(), ItemQueries(client, keys)
    async for some in chosen.items:
        for row in await selecting.rows(some):
            tally.items += 1
            tally.requests += row.type == "url"
            tally.hosts[row.host or "files"] += 1
            tally.statuses[row.status] += 1
    async for uids in chosen.links:
        tally.links.update(uids)
    tally.requests += len(tally.links)
    return tally


def _counted(tally: Tally, force: bool) -> str:
    links = f" and {counted(len(tally.links), 'link')} without an article" if tally.links else ""
    how = "read anew" if force else "checked by validators"
    requests = counted(tally.requests, "request")
    lines = [f"{counted(tally.items, 'item')}{links} would be {how}: at most {requests}. Nothing was changed."]
    if tally.items:
        lines += ["", table(("STATUS", "ITEMS"), sorted(tally.statuses.items()))]
        lines += ["", table(("HOST", "ITEMS"), tally.hosts.most_common(MOST_HOSTS))]
    if len(tally.hosts) > MOST_HOSTS:
        lines.append(f"and {len(tally.hosts) - MOST_HOSTS} more hosts")
    return "\n".join(lines)


# ── marking ──


async def _mark(settings: Settings, keys: Keys, client: Client, chosen: Chosen, force: bool) -> int:
    forcing, token, now = Forcing(client, keys), new_token(), await connect.now(client)
    room, marked = MOST_JOBS * settings.refresh_batch_items, 0
    first: list[str] = []
    async for some in chosen.items:
        done = await forcing.make_due(some, now, iso(now), force=force, token=token)
        found = [item_id for item_id, is_there in zip(some, done, strict=True) if is_there]
        marked += len(found)
        first += found[: room - len(first)]
    retried: set[str] = set()
    async for uids in chosen.links:
        await FailedLinks(client, keys).retry(uids, now)
        retried.update(uids)
    echo(f"Due now: {counted(marked, 'item')}, to be {'read anew' if force else 'checked by validators'}.")
    if retried:
        links = counted(len(retried), "link")
        echo(f"Without an article so far: {links}; the next run of the canonical fetcher tries again.")
    if first:
        echo(await asyncio.to_thread(_wake, settings, first, now, token))
    return 0


def _wake(settings: Settings, item_ids: list[str], now: float, token: str) -> str:
    """Jobs for the first of them; a sentence about it."""
    batch, sent = settings.refresh_batch_items, 0
    try:
        queues = JobQueues(settings)
        try:
            for start in range(0, len(item_ids), batch):
                some = item_ids[start : start + batch]
                sent += queues.enqueue("workers.jobs.reindex", some, now, id_words=("reindex", token, str(start)))
        finally:
            queues.close()
    except (RedisError, OSError) as error:
        return f"The queue's server does not answer ({type(error).__name__}); the timer brings them when it is back."
    return (
        f"Sent: {counted(sent, 'job')}. `python -m workers reindex refresh` does the work; the timer brings the rest."
    )


# ── another vector space ──


async def migrate(settings: Settings, keys: Keys, client: Client, *, dry_run: bool) -> int:
    """Embed everything into the space of the settings, then cut over; or only count."""
    embedder, raw = open_embedder(settings), connect.open_raw(settings)
    migration = Migration(client, keys, ChunkStore(client, raw, keys), embedder)
    try:
        space, before = await migration.space(), await VectorSpaceStore(client, keys).current()
        count = await migration.count()
        echo(_plan(before, space, count))
        if dry_run:
            echo("Nothing was changed.")
            return 0
        with progress.bar(count.chunks if space else 0, "Embedding") as bar:
            embedded, waiting = await migration.run(bar.update)
    except EmbedderUnavailable as away:
        echo(f"{away} What is embedded is kept, and search is as before; the same command goes on.", file=sys.stderr)
        return 2
    finally:
        await embedder.close()
        await raw.aclose()
    live, swapped = space.name if space else "no vectors", counted(waiting, "item")
    echo(f"Embedded: {counted(embedded, 'chunk')}. Live now: {live}; {swapped} to be swapped.")
    if waiting:
        echo("`python -m workers embed` and the timer do that; search answers meanwhile.")
    if space is None:
        echo("A worker whose settings name a model would bring vectors back: end those first.")
    return 0


def _plan(before: str, space: VectorSpace | None, count: MigrationEstimate) -> str:
    there = f"{counted(count.chunks, 'chunk')} of {counted(count.items, 'item')}"
    if space is None:
        return f"From {before or 'no vectors'} to no vectors: {there}; the old vectors are kept for 30 days."
    return f"From {before or 'no vectors'} to {space.name}: {there}, {count.cached} of them embedded already."


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.reindex", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("word", nargs="?", metavar="ID|URL|PATH", help="an item, by any of its names")
    for name, value in (("category", "C"), ("domain", "D"), ("source", "S"), ("host", "H"), ("status", "S")):
        what.add_argument(f"--{name}", metavar=value)
    what.add_argument("--stale", action="store_true", help="what an older version of Freshet read")
    what.add_argument("--all", action="store_true")
    what.add_argument("--embeddings", action="store_true", help="migrate to the vector space of the settings")
    parser.add_argument("--force", action="store_true", help="ignore validators, hashes and memory")
    parser.add_argument("--dry-run", action="store_true", help="tell how many that is; changes nothing")
    return session.run(reindex(Asked(**vars(parser.parse_args()))))


if __name__ == "__main__":
    sys.exit(main())
