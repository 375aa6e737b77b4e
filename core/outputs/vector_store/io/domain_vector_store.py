"""Open the vector store of a domain: Freshet's own index, or one at OpenAI, as its domain.json says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from core.outputs.vector_store.protocol import VectorStore, VectorStoreUnavailable
from core.runtime.context import Context
from core.sources.io.domain_file_sync import set_vector_store_id
from core.sources.io.domain_folder import DomainFolders
from core.sources.io.domain_store import DomainStore, StoredDomain
from core.sources.source_record import DomainFileError

if TYPE_CHECKING:
    from core.outputs.vector_store.io.openai_setup import StoreOwner

OPENAI = "openai"


@asynccontextmanager
async def open_store(
    context: Context,
    domain_id: str,
    should_stop: Callable[[], bool] = lambda: False,
    source: str | None = None,
    dead_leases: Collection[str] = (),
) -> AsyncIterator[VectorStore]:
    """Yield the store of a domain; one that the domain does not name yet is made, and its id written back.

    `source`: only the files of this source are wanted. Raises VectorStoreMissing if the store does not exist any more,
    VectorStoreUnavailable if it cannot be used now, NotFound if there is no such domain.
    """
    domain = await DomainStore(context.client, context.keys).require(domain_id)
    # Each loads its own modules here: most crawls open no store.
    if domain.vector_store.index == OPENAI:
        from core.outputs.vector_store.io.openai_setup import open_openai_store

        async with open_openai_store(context.settings, _at_openai(context, domain), should_stop=should_stop) as store:
            yield store
    else:
        from core.outputs.vector_store.io.redis_store import open_redis_store

        sids = domain.sources if source is None else [domain.source_id(source)]
        async with open_redis_store(context, domain_id, sids, should_stop, dead_leases) as own:
            yield own


def _at_openai(context: Context, domain: StoredDomain) -> StoreOwner:
    from core.outputs.vector_store.io.openai_setup import StoreOwner

    folders, choice = DomainFolders(context.settings.persistent_storage_path), domain.vector_store

    def read_id() -> str:
        try:
            file = folders.read(domain.id)
            return file.parse().vector_store_id if file else choice.id
        except DomainFileError as error:
            raise VectorStoreUnavailable(str(error)) from error

    async def write_id(store_id: str) -> None:
        try:
            await set_vector_store_id(context.settings, context.client, context.keys, domain.id, store_id)
        except (DomainFileError, OSError) as error:
            raise VectorStoreUnavailable(
                f"The vector store {store_id} was made, but its id cannot be written into the domain.json: {error}"
            ) from error

    return StoreOwner(domain.id, choice.name, folders.path(domain.id).parent, read_id, write_id)
