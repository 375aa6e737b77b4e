"""Add a domain: read what a person gave, store it, and drop the sources it no longer has."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from core.keys import Keys
from core.registry.io.item_forgetter import ItemForgetter
from core.registry.io.registrar import Listing, Registrar, item_id_of
from core.runtime.terminal import echo
from core.settings import Settings
from core.sources.domain import Domain, DomainFileError, SourceRecord
from core.sources.io import domain_file, read_permission
from core.sources.io.domain_store import DomainStore, StoredDomain
from core.sources.io.source_kinds import location, source_class
from core.sources.io.source_store import SourceStore
from core.store import connect
from scripts import session
from scripts.domain_remove import told
from scripts.tables import table

MOST_FILE_BYTES = 1_000_000


async def add(what: str, name: str | None) -> int:
    """Add it, or give it the configuration it has now."""
    async with session.open_session() as (settings, keys, client):
        domain = read(what, name, settings)
        store, now = DomainStore(client, keys), await connect.now(client)
        before = await store.read(domain.id)
        if before and name is None and not _is_file(what):
            _refuse_another(domain, before, what)
        sources = [_signed(settings, one) for one in domain.sources(settings.github_web_url)]
        dropped = [sid for sid in (before.sources if before else ()) if sid not in {one.sid for one in sources}]
        # With those that go, until they are gone: broken off in between, the next add goes on.
        await store.save(domain, [*(one.sid for one in sources), *dropped], now)
        await _add_sources(SourceStore(client, keys), _registrar(settings, keys, client), sources, now)
        echo(f"{'Updated' if before else 'Added'} {domain.id}: {domain.name}")
        for sid in dropped:
            echo(f"{sid} is no longer in it; it goes with the items that no other source lists.")
            forgetter = ItemForgetter(client, keys)
            await forgetter.source(sid)
            echo(f"  {told(forgetter.counts)}")
        await store.save(domain, [one.sid for one in sources], now)
    echo(table(("SOURCE", "KIND", "WHERE"), [(one.sid, one.kind, location(one)) for one in sources]))
    echo(f"Next: python -m scripts.domain crawl {domain.id}")
    return 0


def read(what: str, name: str | None, settings: Settings) -> Domain:
    """The domain that a file, an address or a folder describes."""
    here = Path.cwd()
    if _is_file(what):
        domain = _read_file(Path(what))
    else:
        domain = domain_file.quick(what, str(here), web_url=settings.github_web_url)
        for _, source in domain.models():
            if trouble := source.trouble():
                raise DomainFileError(trouble)
    return domain_file.renamed(domain, name) if name else domain


def _is_file(what: str) -> bool:
    return "://" not in what and Path(what).is_file()


def _read_file(path: Path) -> Domain:
    try:
        with path.open("rb") as file:
            text = file.read(MOST_FILE_BYTES + 1)
        if len(text) > MOST_FILE_BYTES:
            raise DomainFileError(f"{path}: is larger than a domain can be ({MOST_FILE_BYTES:,} bytes).")
        return domain_file.parse(text.decode(), str(path.absolute().parent))
    except UnicodeDecodeError:
        raise DomainFileError(f"{path}: is no text in UTF-8.") from None
    except OSError as error:
        raise DomainFileError(f"{path}: cannot be read ({error.strerror}).") from None
    except DomainFileError as error:
        raise DomainFileError(f"{path}: {error}") from None


def _refuse_another(domain: Domain, before: StoredDomain, what: str) -> None:
    """A name made of an address may be that of another domain, which must not be overwritten by accident."""
    known, new = json.loads(before.config or "{}"), json.loads(domain.model_dump_json())
    if any(known.get(name, []) != new[name] for name in domain.source_fields()):
        raise DomainFileError(
            f"There is another domain {domain.id} ({before.name}). "
            f"Give this one a name: python -m scripts.domain add {what} --id NAME"
        )


def _registrar(settings: Settings, keys: Keys, client: connect.Client) -> Registrar:
    return Registrar(client, keys, settings.registry_partition_strategy, settings.tracking_param_prefixes)


def _signed(settings: Settings, source: SourceRecord) -> SourceRecord:
    """This is the person's own command: what it names may be read."""
    return read_permission.sign_source(settings, source) if source_class(source.kind).needs_signature else source


async def _add_sources(store: SourceStore, registrar: Registrar, sources: Sequence[SourceRecord], now: float) -> None:
    for one in sources:
        root = source_class(one.kind).root(one.config)
        await store.add(one, item_id_of(root) if root else "", now)
        if root:
            await registrar.register([root], Listing(one.sid), now)
