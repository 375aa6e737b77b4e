"""Add a domain to the store, or remove it.

Adding saves it, signs and registers its sources, and removes those that it no longer has.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from core.keys import Keys
from core.registry.io.item_forgetter import ForgetCounts, ItemForgetter
from core.registry.io.registrar import Listing, Registrar, item_id_of
from core.runs.io.state_file import StateFiles
from core.settings import Settings
from core.sources.io import read_permission
from core.sources.io.domain_folder import DomainFolders
from core.sources.io.domain_store import DomainStore, StoredDomain, no_domain
from core.sources.io.source_kinds import location, source_class
from core.sources.io.source_store import SourceStore
from core.sources.source_record import DomainFileError, SourceRecord
from core.store import connect
from core.store.connect import Client
from core.value_class import value_class

if TYPE_CHECKING:
    from core.sources.domain_schema import Domain  # whose models take pydantic

log = logging.getLogger("store")


@value_class
class AddedDomain:
    is_new: bool
    sources: Sequence[SourceRecord]
    removed: Mapping[str, ForgetCounts]
    """By id, the sources that it no longer has, and what went with them."""


async def add_domain(
    settings: Settings,
    client: connect.Client,
    keys: Keys,
    domain: Domain,
    *,
    derived_from: str = "",
    is_own_command: bool = True,
    file_digest: str | None = None,
) -> AddedDomain:
    """Add a domain, or give a known one the configuration it has now; its domain.json says the same then.

    `derived_from`: what its id was made of, if it was not chosen; then another domain of that id is never replaced.
    `is_own_command`: a person typed it on this machine, so the folders that it names may be read. Without that they
    have to be below FOLDER_ROOTS, or be there already as they are; else DomainFileError. `file_digest`: of the
    domain.json in its folder, if it was read from that one.
    """
    store, now = DomainStore(client, keys), await connect.now(client)
    before = await store.read(domain.id)
    if before and derived_from:
        _refuse_another(domain, before, derived_from)
    _refuse_settings(settings, domain)
    if before and file_digest is None:
        domain = _with_known_store(domain, before)
    permit = _signed if is_own_command else _permitted
    source_store = SourceStore(client, keys)
    sources = [await permit(settings, source_store, record) for record in domain.sources(settings.github_web_url)]
    if file_digest is None:
        file_digest = await asyncio.to_thread(_write_file, settings, domain)
    sids = [record.sid for record in sources]
    dropped = [sid for sid in (before.sources if before else ()) if sid not in sids]
    # Dropped ones stay named until they are gone: if this is interrupted, the next add removes them.
    await store.save(domain, [*sids, *dropped], now)
    registrar = Registrar(client, keys, settings.registry_partition_strategy, settings.tracking_param_prefixes)
    for record in sources:
        root = source_class(record.kind).root(record.config)
        await source_store.add(record, item_id_of(root) if root else "", now)
        if root:
            await registrar.register([root], Listing(record.sid), now)
    removed = {}
    for sid in dropped:
        forgetter = ItemForgetter(client, keys)
        await forgetter.source(sid)
        removed[sid] = forgetter.counts
    await store.save(domain, sids, now, file_digest)
    return AddedDomain(before is None, sources, removed)


async def remove_domain(
    settings: Settings, client: connect.Client, keys: Keys, domain_id: str, *, dry_run: bool = False
) -> ForgetCounts:
    """Remove a domain with its sources, items, runs, state and local files; its reports stay.

    Raises NotFound if there is none of that id.
    """
    domain = await DomainStore(client, keys).read(domain_id)
    folders, forgetter = DomainFolders(settings.persistent_storage_path), ItemForgetter(client, keys, dry_run=dry_run)
    forgetter.counts.files = await asyncio.to_thread(folders.count_files, domain_id)
    if domain is None and not forgetter.counts.files:
        raise no_domain(domain_id)
    if not dry_run:  # first the file: else a sync in between would add the domain again
        await asyncio.to_thread(folders.forget, domain_id)
    if domain:
        await forgetter.domain(domain)
    if not dry_run:
        StateFiles(settings.persistent_storage_path).remove(domain_id)
        await asyncio.to_thread(folders.remove_copy, domain_id)
    return forgetter.counts


async def read_quick(settings: Settings, client: Client, keys: Keys, word: str, domain_id: str = "") -> Domain:
    """Return the domain that a word names; raise DomainFileError, a sentence, if it cannot be one.

    No file is read for it, and whether a folder is there is only told of those that may be read.
    """
    # Here: it takes pydantic, which a crawl and the timer do without.
    from core.sources.io.domain_file import parse_quick, renamed

    domain = parse_quick(word, "/", web_url=settings.github_web_url)
    if domain_id:
        domain = renamed(domain, domain_id)
    for record in domain.sources(settings.github_web_url):
        await _permitted(settings, SourceStore(client, keys), record)
    for _, source in domain.models():
        if problem := source.problem():
            raise DomainFileError(problem)
    return domain


def _write_file(settings: Settings, domain: Domain) -> str:
    """Write the domain.json of a domain and return its digest; a disk that cannot be written is a warning."""
    folders = DomainFolders(settings.persistent_storage_path)
    try:
        return folders.write(domain)
    except OSError as error:
        log.warning("⚠️ %s cannot be written: %s", folders.path(domain.id), error.strerror)
        return ""


def _with_known_store(domain: Domain, before: StoredDomain) -> Domain:
    """Return the domain with the vector store that it has, unless it names one or wants another."""
    known = before.vector_store
    is_same = (domain.vector_store_name or domain.id, domain.index) == (known.name, known.index)
    if "vector_store_id" in domain.model_fields_set or not known.id or not is_same:
        return domain
    return domain.model_copy(update={"vector_store_id": known.id})


def _refuse_another(domain: Domain, before: StoredDomain, derived_from: str) -> None:
    known, new = json.loads(before.config or "{}"), json.loads(domain.model_dump_json())
    if any(known.get(name, []) != new[name] for name in domain.source_fields()):
        raise DomainFileError(
            f"There is another domain {domain.id} ({before.name}). "
            f"Give this one a name: python -m scripts.domain add {derived_from} --id NAME"
        )


def _refuse_settings(settings: Settings, domain: Domain) -> None:
    for name in domain.source_fields():
        for at, model in enumerate(getattr(domain, name)):
            if refusal := model.refusal(settings.fetch_allowed_hosts):
                raise DomainFileError(f"{name}[{at}].{refusal}.")


async def _signed(settings: Settings, _: SourceStore, record: SourceRecord) -> SourceRecord:
    return read_permission.sign_source(settings, record) if source_class(record.kind).needs_signature else record


async def _permitted(settings: Settings, store: SourceStore, record: SourceRecord) -> SourceRecord:
    """Return the record if it may be read without a new signature; raise DomainFileError if not."""
    if not source_class(record.kind).needs_signature:
        return record
    known = await store.read(record.sid) if await store.has(record.sid) else None
    if known and replace(known.record, signature="") == record:
        return known.record
    path = location(record)
    if read_permission.folder_refusal(settings, record, path):
        roots = ", ".join(settings.folder_roots)
        raise DomainFileError(
            f"{path} may not be read: it is not below FOLDER_ROOTS, {roots or 'which is empty'}. Here"
            f" only folders below it may be added. Set FOLDER_ROOTS, or run: freshet domain add {path} --id"
            f" {record.domain}."
        )
    return record
