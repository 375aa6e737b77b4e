"""Open the vector store of a domain at OpenAI; make one if the domain names none.

A store whose id was not written down, since the answer was lost or the process was killed, is found
again by a word in its metadata. That word is in a file beside the domain.json before the store is made.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

from core.outputs.vector_store.io.openai_calls import CallFailed, OpenAiCalls, Sleep, open_calls
from core.outputs.vector_store.io.openai_store import OpenAiStore
from core.outputs.vector_store.protocol import VectorStoreUnavailable
from core.settings import Settings
from core.store import private_files
from core.value_class import value_class

log = logging.getLogger("crawler")

STORES_PER_PAGE = 100
LOCK_NAME = ".vector_store.lock"
CREATION_NAME = ".vector_store.creation"
_LOCK_POLL_SECONDS = 0.05


@value_class
class StoreOwner:
    domain_id: str
    name: str
    """`vector_store_name`; empty: the id of the domain."""
    folder: Path
    """Where its domain.json is."""
    read_id: Callable[[], str]
    """Return `vector_store_id` as it is in the domain.json now."""
    write_id: Callable[[str], Awaitable[None] | None]
    """Write it there."""

    @property
    def store_name(self) -> str:
        return self.name or self.domain_id


@contextlib.asynccontextmanager
async def open_openai_store(
    settings: Settings,
    domain: StoreOwner | str,
    sleep: Sleep = asyncio.sleep,
    should_stop: Callable[[], bool] = lambda: False,
) -> AsyncIterator[OpenAiStore]:
    """Open the store of a domain, or that with an id, which is never made.

    Raises VectorStoreMissing if it does not exist, VectorStoreUnavailable if there can be none.
    """
    async with open_calls(settings, sleep) as calls:
        store_id = domain if isinstance(domain, str) else domain.read_id() or await _created(calls, domain)
        store = OpenAiStore(calls, store_id, settings.openai_wait_seconds, should_stop)
        await store.check()
        yield store


async def _created(calls: OpenAiCalls, domain: StoreOwner) -> str:
    """Make the store, once: of several processes one makes it, and the others find its id in the domain.json."""
    await asyncio.to_thread(domain.folder.mkdir, parents=True, exist_ok=True)
    async with _locked(domain.folder / LOCK_NAME):
        if store_id := domain.read_id():
            return store_id
        note = domain.folder / CREATION_NAME
        word, is_retry = _creation_word(note)
        try:
            store_id = await _create(calls, domain, word, is_retry)
        except CallFailed as error:
            if error.is_final:
                note.unlink(missing_ok=True)
            sentence = f"The vector store '{domain.store_name}' could not be created: {error}"
            raise VectorStoreUnavailable(sentence) from None
        written = domain.write_id(store_id)
        if written is not None:
            await written
        note.unlink(missing_ok=True)
    log.info("Created vector store '%s' (ID=%s)", domain.store_name, store_id)
    return store_id


async def _create(calls: OpenAiCalls, domain: StoreOwner, word: str, is_retry: bool) -> str:
    async def send() -> str:
        stores = calls.client.vector_stores
        metadata = {"domain": domain.domain_id, "creation": word}
        return (await stores.create(name=domain.store_name, metadata=metadata)).id

    async def find() -> str | None:
        return await _find(calls, domain.store_name, word)

    if is_retry and (found := await find()) is not None:
        return found
    return await calls.send(send, find)


async def _find(calls: OpenAiCalls, name: str, word: str) -> str | None:
    async for one in calls.each(partial(calls.client.vector_stores.list, limit=STORES_PER_PAGE, order="desc")):
        if one.name == name and (one.metadata or {}).get("creation") == word:
            return str(one.id)
    return None


def _creation_word(note: Path) -> tuple[str, bool]:
    """Return the word that names this creation, and whether an earlier process began it."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if word := note.read_text().strip():
            return word, True
    word = uuid.uuid4().hex
    private_files.write(note, word, is_durable=True)
    return word, False


@contextlib.asynccontextmanager
async def _locked(path: Path) -> AsyncIterator[None]:
    number = os.open(path, os.O_RDWR | os.O_CREAT, private_files.FILE_MODE)
    try:
        while True:
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(_LOCK_POLL_SECONDS)
        yield
    finally:
        os.close(number)
