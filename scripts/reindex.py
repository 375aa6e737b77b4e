"""Read items again: at once by their validators, or with --force whatever those say.

python -m scripts.reindex ID|UID|URL|PATH    one item, by any of its names
python -m scripts.reindex --category world   the articles of a category
python -m scripts.reindex --domain docs      the items of a domain; --source docs.site: of one source of it
python -m scripts.reindex --host example.org | --status Error | --stale | --all
python -m scripts.reindex --embeddings       all texts into the vector space of the settings, beside the live one;
                                             where EMBEDDER is none, to search by words alone
python -m scripts.reindex --rebuild due       the schedule of all sources from their records, by a worker
python -m scripts.reindex --rebuild chunks    the chunks of all texts, beside the live ones
python -m scripts.reindex --qdrant            the index in Qdrant (QDRANT_URL) from Redis; search answers meanwhile
    --force      ignore validators, hashes and memory; links of the category that failed are tried again too
    --dry-run    tell how many items and requests that is; changes nothing

--stale: what an older version of Freshet read. The registry is marked first, then the workers are woken; what they are
not told the timer brings, so nothing is lost if nobody listens.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

from core.errors import SettingsError
from core.keys import Keys
from core.registry.io.reindex import Reindexer, ReindexRequest, SelectionCounts
from core.runs.io.pass_run import PassStopped
from core.runs.run import run_json
from core.runtime import progress
from core.runtime.terminal import echo
from core.search.io import qdrant_connect
from core.search.io.chunk_store import ChunkStore
from core.search.io.embedders import open_embedder
from core.search.io.index_rebuild import IndexRebuild, RebuildTarget
from core.search.io.migration_run import migrate_as_run
from core.search.io.vector_migration import Migration, MigrationEstimate
from core.search.io.vector_space_store import VectorSpaceStore
from core.search.protocols import EmbedderUnavailable
from core.search.vector_spaces import Spaces
from core.settings import Settings
from core.store import connect
from core.store.connect import Client
from scripts import command_line
from scripts.command_names import as_typed
from scripts.tables import counted, table

MOST_HOSTS = 20


async def reindex(request: ReindexRequest, *, dry_run: bool = False, as_json: bool = False) -> int:
    """Make the items due and wake the workers, or only count them."""
    async with command_line.open_session() as (settings, keys, client):
        reindexer = Reindexer(settings, client, keys)
        if dry_run:
            counts = await reindexer.count(await reindexer.select(request, Path.cwd()))
            return command_line.answer(_preview_json(counts), _preview(counts, request.force), as_json=as_json)
        done = await reindexer.run(request, Path.cwd())
    if as_json:
        command_line.print_json(asdict(done))
        return 0
    echo(f"Due now: {counted(done.items, 'item')}, to be {_how(request.force)}.")
    if done.links:
        links = counted(done.links, "link")
        echo(f"Without an article so far: {links}; the next run of the canonical fetcher tries again.")
    if done.paused:
        echo(as_typed(done.paused))
    if done.queue_problem:
        echo(done.queue_problem)
    elif done.items > done.waiting:
        work = "`python -m workers reindex refresh` does the work; the timer brings the rest."
        echo(f"Sent: {counted(done.jobs, 'job')}. {work}")
    return 0


async def rebuild(target: RebuildTarget, *, force: bool, dry_run: bool, as_json: bool = False) -> int:
    """Start a run that rebuilds due sets or chunks, or count what it would change."""
    async with command_line.open_session() as (settings, keys, client):
        index = IndexRebuild(settings, client, keys)
        if dry_run:
            counts = await index.preview(target, force=force)
            would = ", ".join(f"{count} {name}" for name, count in counts.items())
            return command_line.answer(counts, f"{would}. Nothing was changed.", as_json=as_json)
        run = await index.start(target, force=force, started_by="script")
    text = f"{run.id} does it: `python -m workers reindex embed` works on it. python -m scripts.runs watch {run.id}"
    return command_line.answer(run_json(run), text, as_json=as_json)


async def fill() -> int:
    """Fill the index in Qdrant from Redis, now and here."""
    try:
        from core.search.io.qdrant_follower import fill_qdrant
    except ModuleNotFoundError as error:
        raise SettingsError(qdrant_connect.MISSING.format(error.name)) from None
    async with command_line.open_session() as (settings, keys, client):
        items, chunks = await fill_qdrant(settings, client, keys)
        is_searched = settings.search_backend == "qdrant"
    if items is None:
        echo("Another process is filling it.", file=sys.stderr)
        return 1
    echo(f"Qdrant has {counted(chunks, 'chunk')} of {counted(items, 'item')}.")
    if not is_searched:
        echo("Set SEARCH_BACKEND=qdrant to search there.")
    return 0


def _preview(counts: SelectionCounts, force: bool) -> str:
    links = f" and {counted(len(counts.links), 'link')} without an article" if counts.links else ""
    requests = counted(counts.requests, "request")
    lines = [f"{counted(counts.items, 'item')}{links} would be {_how(force)}: at most {requests}. Nothing was changed."]
    if counts.items:
        lines += ["", table(("STATUS", "ITEMS"), sorted(counts.statuses.items()))]
        lines += ["", table(("HOST", "ITEMS"), counts.hosts.most_common(MOST_HOSTS))]
    if len(counts.hosts) > MOST_HOSTS:
        lines.append(f"and {len(counts.hosts) - MOST_HOSTS} more hosts")
    return "\n".join(lines)


def _preview_json(counts: SelectionCounts) -> dict[str, object]:
    return {
        "items": counts.items,
        "links": len(counts.links),
        "requests": counts.requests,
        "statuses": dict(sorted(counts.statuses.items())),
        "hosts": dict(counts.hosts.most_common()),
    }


def _how(force: bool) -> str:
    return "read anew" if force else "checked by validators"


# ── another vector space ──


async def migrate(*, dry_run: bool = False) -> int:
    """Embed everything into the space of the settings, then cut over; or only count."""
    async with command_line.open_session() as (settings, keys, client):
        return await _migrate(settings, keys, client, dry_run=dry_run)


async def _migrate(settings: Settings, keys: Keys, client: Client, *, dry_run: bool) -> int:
    embedder, raw = open_embedder(settings), connect.open_raw(settings)
    migration = Migration(client, keys, ChunkStore(client, raw, keys), embedder)
    try:
        spaces, before = await migration.spaces(), await VectorSpaceStore(client, keys).current()
        estimate = await migration.estimate()
        echo(_plan(before, spaces, estimate))
        if dry_run:
            echo("Nothing was changed.")
            return 0
        with progress.bar(estimate.chunks if spaces else 0, "Embedding") as bar:
            embedded, waiting = await migrate_as_run(client, keys, migration, estimate, bar.update)
    except EmbedderUnavailable as away:
        echo(f"{away} What is embedded is kept, and search is as before; the same command goes on.", file=sys.stderr)
        return 2
    except PassStopped:
        echo("Cancelled. What is embedded is kept, and search is as before; the same command goes on.", file=sys.stderr)
        return 1
    finally:
        await embedder.close()
        await raw.aclose()
    live, swapped = spaces.name or "no vectors", counted(waiting, "item")
    echo(f"Embedded: {counted(embedded, 'chunk')}. Live now: {live}; {swapped} to be swapped.")
    if waiting:
        echo("`python -m workers embed` and the timer do that; search answers meanwhile.")
    if not spaces:
        echo("A worker whose settings name a model would bring vectors back: end those first.")
    return 0


def _plan(before: str, spaces: Spaces, estimate: MigrationEstimate) -> str:
    there = f"{counted(estimate.chunks, 'chunk')} of {counted(estimate.items, 'item')}"
    if not spaces:
        return f"From {before or 'no vectors'} to no vectors: {there}; the old vectors are kept for 30 days."
    return f"From {before or 'no vectors'} to {spaces.name}: {there}, {estimate.cached} of them embedded already."


def main() -> int:
    parser = command_line.parser("python -m scripts.reindex", __doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("name", nargs="?", metavar="ID|URL|PATH", help="an item, by any of its names")
    for name, value in (("category", "C"), ("domain", "D"), ("source", "S"), ("host", "H"), ("status", "S")):
        what.add_argument(f"--{name}", metavar=value)
    what.add_argument("--stale", action="store_true", help="what an older version of Freshet read")
    what.add_argument("--all", action="store_true")
    targets = [str(target) for target in RebuildTarget]
    what.add_argument("--rebuild", choices=targets, help="the schedule, or all chunks, for the whole store")
    what.add_argument("--embeddings", action="store_true", help="migrate to the vector space of the settings")
    parser.add_argument("--force", action="store_true", help="ignore validators, hashes and memory")
    parser.add_argument("--dry-run", action="store_true", help="tell how many that is; changes nothing")
    parser.add_argument("--json", action="store_true", help="for programs")
    what.add_argument("--qdrant", action="store_true", help="fill the index in Qdrant from Redis")
    options = vars(parser.parse_args())
    dry_run, as_json = options.pop("dry_run"), options.pop("json")
    if options.pop("embeddings"):
        return command_line.run(migrate(dry_run=dry_run))
    if options.pop("qdrant"):
        return command_line.run(fill())
    if target := options.pop("rebuild"):
        force = options["force"]
        return command_line.run(rebuild(RebuildTarget(target), force=force, dry_run=dry_run, as_json=as_json))
    return command_line.run(reindex(ReindexRequest(**options), dry_run=dry_run, as_json=as_json))


if __name__ == "__main__":
    sys.exit(main())
