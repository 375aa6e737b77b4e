"""Find the items of a reindex that are paused, and what they wait for."""

from __future__ import annotations

from collections.abc import Sequence

from core.registry.io.item_queries import ItemQueries
from core.runs.run import Run
from core.runs.run_request import BlockedScopes


class PausedItems:
    """Collects items that wait because every domain that lists them is paused, or because their run is."""

    def __init__(self, queries: ItemQueries, blocked: BlockedScopes) -> None:
        self._queries = queries
        self._blocked = blocked
        self._domains: set[str] = set()
        self.count = 0

    async def visitable(self, item_ids: Sequence[str]) -> list[str]:
        """Return those that may be visited; count the others."""
        if not self._blocked.paused:
            return list(item_ids)
        rows = await self._queries.summaries(item_ids)
        paused = {row.item_id: self._blocked.paused_domains(row.sources) for row in rows}
        self._domains.update(*paused.values())
        found = [item_id for item_id in item_ids if not paused.get(item_id)]
        self.count += len(item_ids) - len(found)
        return found

    def is_run_paused(self, run: Run) -> bool:
        """Return whether the run is paused, or all reindexing. If so, everything waits, whatever lists it."""
        return not self._blocked.paused.isdisjoint({run.scope, str(run.kind)})

    def sentence(self, run: Run | None, items: int) -> str:
        """Return what waits, for what, and the command that goes on with it; empty if nothing does."""
        if run and self.is_run_paused(run):
            name = str(run.kind) if str(run.kind) in self._blocked.paused else run.id
            what = "reindexing is paused" if name == run.kind else f"{name} is paused"
            return f"{_wait(items)}: {what}; `python -m scripts.runs resume {name}` goes on with it."
        if not self.count:
            return ""
        commands = ", ".join(f"`python -m scripts.domain resume {name}`" for name in sorted(self._domains))
        return f"{waiting_for(self.count, sorted(self._domains))}; {commands} goes on with it."


def waiting_for(items: int, domains: Sequence[str]) -> str:
    """Return the sentence that this many items wait for these domains."""
    is_one = len(domains) == 1
    return f"{_wait(items)}: the domain{'' if is_one else 's'} {', '.join(domains)} {'is' if is_one else 'are'} paused"


def _wait(items: int) -> str:
    return f"{items} item{'' if items == 1 else 's'} wait{'s' if items == 1 else ''}"
