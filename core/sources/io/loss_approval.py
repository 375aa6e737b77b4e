"""Approve removals that the loss guard has stopped: the sources of a domain may lose more, for a day."""

from __future__ import annotations

from collections.abc import Sequence

from core.keys import Keys
from core.sources.io.domain_store import DomainStore
from core.sources.io.source_losses import DAY_SECONDS
from core.sources.io.source_store import SourceStore
from core.store import connect
from core.store.connect import Client


async def approve_losses(client: Client, keys: Keys, domain_id: str, source: str | None = None) -> Sequence[str]:
    """Let all sources of a domain, or one of them, lose what their next crawls find missing; return their ids.

    Raises NotFound if there is no such domain or source.
    """
    domain = await DomainStore(client, keys).require(domain_id)
    sids = [domain.source_id(source)] if source is not None else list(domain.sources)
    until, sources = await connect.now(client) + DAY_SECONDS, SourceStore(client, keys)
    for sid in sids:
        await sources.losses.allow(sid, until)
    return sids
