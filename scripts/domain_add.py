"""Add a domain: read what a person gave, store it, and drop the sources it no longer has."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from core import domains
from core.domains import Domain, DomainFileError, SourceConfig
from core.models import Ref, SourceKind
from core.settings import Settings
from core.stores import connect
from core.stores.domains import DomainStore, StoredDomain
from core.stores.forgetting import Forgetting
from core.stores.registering import Listing, Registrar, item_id_of
from core.stores.sources import LossLimit, SourceStore
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
        sources = domain.sources(settings.github_web_url)
        dropped = [sid for sid in (before.sources if before else ()) if sid not in {one.sid for one in sources}]
        # With those that go, until they are gone: broken off in between, the next add goes on.
        await store.save(domain, [*(one.sid for one in sources), *dropped], now)
        await _add_sources(SourceStore(client, keys, LossLimit()), _registrar(settings, keys, client), sources, now)
        print(f"{'Updated' if before else 'Added'} {domain.id}: {domain.name}")
        for sid in dropped:
            print(f"{sid} is no longer in it; it goes with the items that no other source lists.")
            forgetting = Forgetting(client, keys)
            await forgetting.source(sid)
            print(f"  {told(forgetting.toll)}")
        await store.save(domain, [one.sid for one in sources], now)
    print(table(("SOURCE", "KIND", "WHERE"), [(one.sid, one.kind, where(one)) for one in sources]))
    print(f"Next: python -m scripts.domain crawl {domain.id}")
    return 0


def read(what: str, name: str | None, settings: Settings) -> Domain:
    """The domain that a file, an address or a folder describes."""
    here = Path.cwd()
    if _is_file(what):
        domain = _read_file(Path(what))
    else:
        domain = domains.quick(what, str(here), web_url=settings.github_web_url)
        for source in domain.folder_sources:
            if not Path(source.path).is_dir():
                raise DomainFileError(f"There is no file or folder {source.path}. A site begins with https://.")
    return domains.renamed(domain, name) if name else domain


def _is_file(what: str) -> bool:
    return "://" not in what and Path(what).is_file()


def _read_file(path: Path) -> Domain:
    try:
        with path.open("rb") as file:
            text = file.read(MOST_FILE_BYTES + 1)
        if len(text) > MOST_FILE_BYTES:
            raise DomainFileError(f"{path}: is larger than a domain can be ({MOST_FILE_BYTES:,} bytes).")
        return domains.parse(text.decode(), str(path.absolute().parent))
    except UnicodeDecodeError:
        raise DomainFileError(f"{path}: is no text in UTF-8.") from None
    except OSError as error:
        raise DomainFileError(f"{path}: cannot be read ({error.strerror}).") from None
    except DomainFileError as error:
        raise DomainFileError(f"{path}: {error}") from None


def _refuse_another(domain: Domain, before: StoredDomain, what: str) -> None:
    """A name made of an address may be that of another domain, which must not be overwritten by accident."""
    kinds = ("web_sources", "folder_sources", "github_sources")
    known, new = json.loads(before.config or "{}"), json.loads(domain.model_dump_json())
    if any(known.get(kind) != new[kind] for kind in kinds):
        raise DomainFileError(
            f"There is another domain {domain.id} ({before.name}). "
            f"Give this one a name: python -m scripts.domain add {what} --id NAME"
        )


def _registrar(settings: Settings, keys, client: connect.Client) -> Registrar:
    return Registrar(client, keys, settings.registry_partition_strategy, settings.tracking_param_prefixes)


async def _add_sources(store: SourceStore, registrar: Registrar, sources: Sequence[SourceConfig], now: float) -> None:
    for one in sources:
        root = Ref(one.config["url"]) if one.kind is SourceKind.WEB else None
        await store.add(one, item_id_of(root) if root else "", now)
        if root:
            await registrar.register([root], Listing(one.sid, most=int(one.config["max_pages"])), now)


def where(source: SourceConfig) -> str:
    """What a source points at, for people."""
    return str(next(source.config[name] for name in ("url", "path", "repo") if name in source.config))
