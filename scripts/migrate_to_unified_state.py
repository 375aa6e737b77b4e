"""Take over the state of knowledge bases from the three files that earlier systems kept, or write these again.

python -m scripts.migrate_to_unified_state            every knowledge base below PERSISTENT_STORAGE_PATH
python -m scripts.migrate_to_unified_state caf docs   these
    --dry-run    tell what would be done; changes nothing
    --back       write the three old files from the state

Reads ingestion/jobs/ID.json, knowledge_bases/ID/crawl_checkpoint.json and index_checkpoint.json; writes kb:ID:state in
Redis and knowledge_bases/ID/state.json. The old files stay. A damaged one is named and copied to FILE.corrupt; all else
is migrated. What was crawled here since is never replaced, and a second time changes nothing.

Exit code 0: all is well. 1: a file was damaged, or a knowledge base that was named is not there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict

from core.runs.io.state_migration import MigratedState, MigrationEnd, StateMigration
from core.runtime.terminal import echo
from scripts import command_line
from scripts.tables import table

HEAD = ("KNOWLEDGE BASE", "RESULT", "OLD FILES", "STATE", "OLD FILES LOAD IN", "STATE LOADS IN")


async def migrate(
    kb_ids: Sequence[str] = (), *, back: bool = False, dry_run: bool = False, as_json: bool = False
) -> int:
    async with command_line.open_session() as (settings, keys, client):
        migration = StateMigration(settings, client, keys, dry_run=dry_run)
        names = list(dict.fromkeys(kb_ids)) or await migration.kb_ids(back=back)
        results = [await (migration.back if back else migration.migrate)(kb_id) for kb_id in names]
    if as_json:
        command_line.print_json([asdict(one) for one in results])
        return _complain(results, is_named=bool(kb_ids))
    if not results:
        echo(f"There is nothing to migrate below {settings.persistent_storage_path}.")
        return 0
    echo(table(HEAD, [_row(one) for one in results]))
    if dry_run:
        echo("Nothing was changed.")
    return _complain(results, is_named=bool(kb_ids))


def _row(one: MigratedState) -> tuple[str, ...]:
    sizes = (f"{size:,} bytes" if size else "–" for size in (one.old_bytes, one.new_bytes))
    times = (f"{seconds * 1000:.2f} ms" if seconds else "–" for seconds in (one.old_seconds, one.new_seconds))
    return (one.kb_id, str(one.end), *sizes, *times)


def _complain(results: Sequence[MigratedState], *, is_named: bool) -> int:
    """Print what a person should know; return the exit code."""
    missing = [one.kb_id for one in results if one.end is MigrationEnd.NOTHING and not one.is_damaged]
    for note in (note for one in results for note in one.notes):
        echo(note, file=sys.stderr)
    for kb_id in missing if is_named else ():
        echo(f"There is no state of {kb_id}, neither in a file nor in Redis.", file=sys.stderr)
    return int(any(one.is_damaged for one in results) or (is_named and bool(missing)))


def main() -> int:
    parser = command_line.parser("python -m scripts.migrate_to_unified_state", __doc__)
    parser.add_argument("kb_ids", nargs="*", metavar="KB", help="a knowledge base; without one, all")
    parser.add_argument("--back", action="store_true", help="write the three old files from the state")
    parser.add_argument("--dry-run", action="store_true", help="tell what would be done; changes nothing")
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args()
    return command_line.run(migrate(options.kb_ids, back=options.back, dry_run=options.dry_run, as_json=options.json))


if __name__ == "__main__":
    sys.exit(main())
