"""How Freshet is: the server, categories, feeds and their health, articles, failures, the registry, the last runs.

python -m scripts.status [--json]
python -m scripts.status --kb ID [--json]    the state of one knowledge base (domain): job, crawl, processing, metrics
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from core.runtime.terminal import echo
from scripts import command_line
from scripts.command_names import as_typed

if TYPE_CHECKING:
    from core.keys import Keys
    from core.store import connect


async def status(as_json: bool, kb_id: str | None = None) -> int:
    from core.runtime.store_status import collect_status
    from scripts.status_text import status_page

    async with command_line.open_session() as (settings, keys, client):
        if kb_id is not None:
            return await _status_of_kb(client, keys, kb_id, as_json)
        values = await collect_status(settings, client, keys)
    return command_line.answer(values, as_typed(status_page(values)), as_json=as_json)


async def _status_of_kb(client: connect.Client, keys: Keys, kb_id: str, as_json: bool) -> int:
    from core.runs import state_json  # here: the status of everything does without
    from core.runs.io.state_store import KbStateStore
    from core.store import connect
    from scripts.status_knowledge_base import kb_page

    now = await connect.now(client)
    state = await KbStateStore(client, keys).require(kb_id, now)
    echo(state_json.to_json(state) if as_json else kb_page(state, now))
    return 0


def main() -> int:
    parser = command_line.parser("python -m scripts.status", __doc__)
    parser.add_argument("--kb", metavar="ID", help="of one knowledge base, which is a domain")
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args()
    return command_line.run(status(options.json, options.kb))


if __name__ == "__main__":
    sys.exit(main())
