"""Look for what does not fit together, and heal it.

python -m scripts.doctor          tell
python -m scripts.doctor --fix    and set it right
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter

from core.indexes.opening import open_searcher
from core.keys import Keys
from core.settings import Settings
from core.stores import connect
from core.stores.reconciling import Finding, Reconciling
from scripts import session

EXAMPLES = 5


async def doctor(*, fix: bool, as_json: bool) -> int:
    """Print what is wrong; exit code 1 if something is left."""
    async with session.open_session() as (settings, keys, client):
        findings = await _findings(client, keys, fix)
        replica = await _replica(settings, keys, client, fix)
    told = {
        "findings": dict(Counter(str(one.wrong) for one in findings)),
        "examples": [{"item": one.item_id, "wrong": str(one.wrong)} for one in findings[:EXAMPLES]],
        "replica": replica,
        "healed": fix,
    }
    print(json.dumps(told, indent=2, ensure_ascii=False) if as_json else _page(told))
    is_left = not fix and (findings or replica["missing"] or replica["extra"])
    return 1 if is_left else 0


async def _findings(client: connect.Client, keys: Keys, fix: bool) -> list[Finding]:
    reconciling, found = Reconciling(client, keys), []
    async for some in reconciling.everything():
        if fix:
            await reconciling.heal(some, await connect.now(client))
        found += some
    return found


async def _replica(settings: Settings, keys: Keys, client: connect.Client, fix: bool) -> dict[str, int]:
    """Chunks that the replica lacks or has too many, against the live versions in Redis."""
    async with open_searcher(settings, client, keys) as searcher:
        return await searcher.compare(fix=fix)


def _page(told: dict[str, object]) -> str:
    findings, replica = told["findings"], told["replica"]
    assert isinstance(findings, dict)
    assert isinstance(replica, dict)
    lines = [f"{count:6}  {wrong}" for wrong, count in findings.items()] or ["Registry, texts and chunks agree."]
    lines.append(
        f"Replica: {replica['pages']} pages, {replica['chunks']} chunks, "
        f"{replica['missing']} pages missing, {replica['extra']} too many"
    )
    if findings or replica["missing"] or replica["extra"]:
        lines.append("All of it is healed." if told["healed"] else "`python -m scripts.doctor --fix` heals it.")
    return "\n".join(lines)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.doctor", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fix", action="store_true", help="set right what is wrong")
    parser.add_argument("--json", action="store_true", help="for programs")
    given = parser.parse_args()
    return session.run(doctor(fix=given.fix, as_json=given.json))


if __name__ == "__main__":
    sys.exit(main())
