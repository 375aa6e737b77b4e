"""Find which source of a domain takes a URL, and why the others do not."""

from __future__ import annotations

from dataclasses import replace

from core.errors import FreshetError
from core.keys import Keys
from core.settings import Settings
from core.sources.io import source_kinds
from core.sources.io.domain_store import DomainStore
from core.sources.io.source_store import SourceStore
from core.sources.source_record import DomainFileError
from core.store.connect import Client
from core.urls.secrets import redact


class NoSourceTakesIt(FreshetError):
    """No source of a domain takes an address."""


class DomainSources:
    """Judges addresses by the configuration of a domain's sources; opens none of them."""

    def __init__(self, settings: Settings, client: Client, keys: Keys) -> None:
        self._settings = settings
        self._domains = DomainStore(client, keys)
        self._sources = SourceStore(client, keys)

    async def taking(self, domain_id: str, address: str, now: float) -> str:
        """Return the first source of the domain that takes the address; raise NoSourceTakesIt with all reasons."""
        reasons = []
        for sid in (await self._domains.require(domain_id)).sources:
            reason = await self._reason(sid, address, now)
            if not reason:
                return sid
            reasons.append(f"{sid}: {reason}")
        raise NoSourceTakesIt(
            f"No source of {domain_id} takes {redact(address)[:200]} ({'; '.join(reasons)}). "
            "Add a source that covers it to the domain, or add it without a domain."
        )

    async def _reason(self, sid: str, address: str, now: float) -> str:
        """Return why a source does not take an address; empty if it does."""
        try:
            state = await self._sources.read(sid)
            if state is None:
                return "is not there any more"
            state = replace(state, record=replace(state.record, sid=sid))
            kind = source_kinds.source_class(state.record.kind)
            judgement = kind.judge(state, self._settings, address, 0, now)
        except (DomainFileError, ValueError, KeyError) as error:
            return f"cannot be read ({error})"
        if judgement is None or not kind.follows_links:
            return "is of another place"
        return judgement.reason + (f" by {judgement.rule}" if judgement.reason and judgement.rule else "")
