"""Import new and edited `domains/<id>/domain.json` files, and write back what Freshet adds to them.

A file is news if the store has no such domain, or if its bytes are others than those that were read or written last
and it is younger than that. So a file that another machine has left behind never replaces a newer configuration.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from core.errors import FreshetError
from core.keys import Keys
from core.settings import Settings
from core.sources.io.domain_folder import DomainFile, DomainFolders
from core.sources.io.domain_setup import AddedDomain, add_domain
from core.sources.io.domain_store import DomainStore, StoredDomain
from core.sources.source_record import DomainFileError
from core.store.connect import Client

log = logging.getLogger("store")

PATIENCE_SECONDS = 5.0
YOUNGER_SECONDS = 1.0
"""The clocks of a disk and of Redis may differ by so much."""


class DomainFileSync:
    """Takes up the files of domains.

    `is_own_command`: a person typed it on this machine, so the folders that a file names may be read and are signed.
    """

    def __init__(self, settings: Settings, client: Client, keys: Keys, *, is_own_command: bool) -> None:
        self._settings = settings
        self._client = client
        self._keys = keys
        self._is_own_command = is_own_command
        self._folders = DomainFolders(settings.persistent_storage_path)
        self._store = DomainStore(client, keys)

    async def one(self, domain_id: str) -> AddedDomain | None:
        """Take up the file of a domain, if it is news; raise DomainFileError, a sentence, if it cannot be used."""
        file = await asyncio.to_thread(self._folders.read, domain_id)
        if file is None or not _is_news(file, await self._store.read(domain_id)):
            return None
        added = await add_domain(
            *(self._settings, self._client, self._keys, file.parse()),
            is_own_command=self._is_own_command,
            file_digest=file.digest,
        )
        log.info("📁 Took up %s → %s", file.path, domain_id)
        return added

    async def one_if_usable(self, domain_id: str, patience_seconds: float = PATIENCE_SECONDS) -> str:
        """Do the same; return a sentence, if the store has a configuration to go on with, else raise it.

        Does not wait for the end of a crawl whose source is no longer in the file.
        """
        try:
            await asyncio.wait_for(self.one(domain_id), patience_seconds)
        except TimeoutError:
            return f"{self._folders.path(domain_id)}: is being taken up; a source that goes is being crawled."
        except DomainFileError as error:
            if await self._store.read(domain_id) is None:
                raise
            return str(error)
        return ""

    async def all(self) -> list[str]:
        """Take up every file that is news; return sentences about those that cannot be used."""
        return await self.some(await asyncio.to_thread(self._folders.stamps))

    async def some(self, domain_ids: Iterable[str]) -> list[str]:
        """Do the same with the files of these domains."""
        problems = []
        for domain_id in domain_ids:
            try:
                await self.one(domain_id)
            except FreshetError as error:
                problems.append(str(error))
        return problems


class DomainWatch:
    """Looks again and again whether a file is new, by its time and size, and takes it up once.

    A source that goes may be crawled for hours; that is waited for in the background.
    """

    def __init__(
        self, settings: Settings, client: Client, keys: Keys, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        self._patience_seconds = patience_seconds
        self._task: asyncio.Task[None] | None = None
        self._folders = DomainFolders(settings.persistent_storage_path)
        self._file_sync = DomainFileSync(settings, client, keys, is_own_command=False)
        self._seen: dict[str, tuple[int, int]] = {}

    async def look(self) -> None:
        """Take up what is new since the last look, as far as there is time; the rest goes on meanwhile."""
        if self._task is None:
            self._task = asyncio.create_task(self._take_up_new())
        done, _ = await asyncio.wait((self._task,), timeout=self._patience_seconds)
        if done:
            self._task = None
            for task in done:
                task.result()

    async def _take_up_new(self) -> None:
        """Take up what is new; a file that cannot be used is named once."""
        stamps = await asyncio.to_thread(self._folders.stamps)
        changed = [domain_id for domain_id, stamp in stamps.items() if self._seen.get(domain_id) != stamp]
        self._seen = stamps
        for problem in await self._file_sync.some(changed):
            log.warning("⚠️ %s", problem)


async def set_vector_store_id(
    settings: Settings, client: Client, keys: Keys, domain_id: str, vector_store_id: str
) -> None:
    """Write the id of its vector store into a domain's file and into the store; nothing else changes there.

    Raises NotFound if there is no such domain, DomainFileError if its file cannot be used, OSError if it cannot be
    written.
    """
    from core.sources.io.domain_file import parse_domain  # here: it takes pydantic, and the timer does without

    store, folders = DomainStore(client, keys), DomainFolders(settings.persistent_storage_path)
    stored = await store.require(domain_id)
    domain = parse_domain(stored.config, "/").model_copy(update={"vector_store_id": vector_store_id})
    before, after = await asyncio.to_thread(folders.set_vector_store_id, domain)
    # An edit that was not applied yet stays pending.
    is_known = before in ("", stored.file_digest)
    await store.set_config(domain, after if is_known else stored.file_digest)


def _is_news(file: DomainFile, known: StoredDomain | None) -> bool:
    if known is None:
        return True
    return file.digest != known.file_digest and file.changed_ts > known.configured_ts - YOUNGER_SECONDS
