"""Compare the vector stores of OpenAI with the map files, for every domain that has one; asks OpenAI."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from core.keys import Keys
from core.outputs.vector_store.io.openai_setup import open_openai_store
from core.outputs.vector_store.io.store_check import CheckedDomain, check_store
from core.outputs.vector_store.protocol import VectorStoreMissing, VectorStoreUnavailable
from core.outputs.vector_store.store_findings import StoreFinding
from core.runs.io.run_store import RunStore
from core.runs.run import source_scope
from core.settings import Settings
from core.sources.io.domain_folder import DomainFolders
from core.sources.io.domain_store import DomainStore, StoredDomain
from core.sources.sharepoint.io.storage_paths import CrawlerStorage
from core.store.connect import Client
from core.value_class import value_class

OPENAI = "openai"


@value_class
class StoreTrouble:
    """A store that could not be compared; the sentence says why."""

    domain_id: str
    sentence: str
    is_busy: bool = False
    """It can be compared when a run has ended; else a person has to do something."""


class VectorStoreChecks:
    """Checks the stores of all domains with the index `openai`."""

    def __init__(self, client: Client, keys: Keys, settings: Settings) -> None:
        self._domains = DomainStore(client, keys)
        self._runs = RunStore(client, keys)
        self._settings = settings
        self._storage = CrawlerStorage.of(settings)

    async def check_all(self, *, fix: bool) -> AsyncIterator[StoreFinding | StoreTrouble]:
        """Yield what is wrong, with `fix` after its repair; and which store could not be compared."""
        for domain in await self._domains.read_many(await self._domains.ids()):
            if domain.vector_store.index == OPENAI and domain.vector_store.id:
                async for found in self._check(domain, fix):
                    yield found

    async def _check(self, domain: StoredDomain, fix: bool) -> AsyncIterator[StoreFinding | StoreTrouble]:
        scopes = await self._runs.open_ids()
        busy = [_own_name(domain, sid) for sid in domain.sources if source_scope(sid) in scopes]
        if busy:
            sentence = f"{', '.join(busy)} of {domain.id} is being crawled; check it afterwards."
            yield StoreTrouble(domain.id, sentence, is_busy=True)
        checked = CheckedDomain(domain.id, [_own_name(domain, sid) for sid in domain.sources], busy)
        try:
            async with open_openai_store(self._settings, domain.vector_store.id) as store:
                async for finding in check_store(store, self._storage, checked, fix=fix):
                    yield finding
        except (VectorStoreMissing, VectorStoreUnavailable) as error:
            yield StoreTrouble(domain.id, f"{domain.id}: {error}{await self._without_file(domain.id)}")

    async def _without_file(self, domain_id: str) -> str:
        """Return what to do about a domain whose file was deleted; empty if it is there."""
        path = DomainFolders(self._settings.persistent_storage_path).path(domain_id)
        if await asyncio.to_thread(path.exists):
            return ""
        return f" {path} is gone; if the domain should go too: `python -m scripts.domain remove {domain_id}`."


def _own_name(domain: StoredDomain, sid: str) -> str:
    return sid.removeprefix(f"{domain.id}.")
