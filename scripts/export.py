"""Export articles, pages and files as JSON Lines: one object per line, with its text.

python -m scripts.export > everything.jsonl
python -m scripts.export --category world --since 1d
python -m scripts.export --domain docs --until 2026-01-31
python -m scripts.export | head -1

--since and --until are about when a text was stored or last changed. docs/export.md describes the fields.
"""

from __future__ import annotations

import sys

from core.runtime.terminal import echo
from core.search.io.export import ExportFilter, export_lines
from scripts import command_line


async def export(wanted: ExportFilter) -> int:
    async with command_line.open_session() as (_, keys, client):
        async for line in export_lines(client, keys, wanted):
            echo(line)
    return 0


def main() -> int:
    parser = command_line.parser("python -m scripts.export", __doc__)
    parser.add_argument("--category", default="", metavar="C", help="articles of a category only")
    parser.add_argument("--domain", default="", metavar="D", help="pages and files of a domain only")
    parser.add_argument("--since", metavar="T", help="stored or changed since: 30m, 2h, 3d, 2026-01-31")
    parser.add_argument("--until", metavar="T", help="and until")
    parser.add_argument("--format", choices=["jsonl"], default="jsonl", help="JSON Lines, the only one so far")
    options = parser.parse_args()

    async def work() -> int:
        since_ts = command_line.moment(options.since)
        until_ts = command_line.moment(options.until, is_end=True)
        return await export(ExportFilter(options.category, options.domain, since_ts, until_ts))

    return command_line.run(work())


if __name__ == "__main__":
    sys.exit(main())
