"""What every source can do: list what it has, and fetch one of it.

The answer of a fetch looks like HTTP whatever stands behind it: 200 with a body and validators, 304, 404 for what is
not there, 403 for what we may not read. So one `decide` serves web sites, folders and repositories alike.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from core.models import Batch, End, FetchResult
from core.net.room import Room
from core.registry import Item


class Source(Protocol):
    """A named place with items in it."""

    def list(self, memory: Mapping[str, str]) -> AsyncIterator[Batch | End]:
        """Everything the source has, in bounded batches, an `End` last.

        `memory` is what the last listing's `End` gave. A source that can tell that nothing changed since
        ends at once with `End(is_complete=False, reason="unchanged", memory=…)`. Expected trouble is an `End` that is
        not complete, never an exception.
        """
        ...

    async def fetch(self, item: Item, conditional: Mapping[str, str], room: Room | None = None) -> FetchResult:
        """One item. `conditional` holds If-None-Match and If-Modified-Since as they came, or nothing."""
        ...
