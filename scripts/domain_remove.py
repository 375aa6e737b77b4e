"""Remove a domain, and say how much went."""

from __future__ import annotations

from core.errors import FreshetError
from core.registry.io.forgetting import Forgetting, Toll
from core.runtime.terminal import say
from core.sources.io.domain_store import DomainStore, StoredDomain
from scripts import session


async def remove(domain_id: str, dry_run: bool) -> int:
    """A domain with all its sources and items."""
    async with session.open_session() as (_, keys, client):
        domain = await known(DomainStore(client, keys), domain_id)
        forgetting = Forgetting(client, keys, dry_run=dry_run)
        await forgetting.domain(domain)
    say(f"{'Would remove' if dry_run else 'Removed'} {domain_id}: {told(forgetting.toll)}")
    return 0


async def known(store: DomainStore, domain_id: str) -> StoredDomain:
    """The domain; else a sentence."""
    domain = await store.read(domain_id)
    if domain is None:
        raise FreshetError(f"There is no domain {domain_id}. `python -m scripts.domain list` shows what there is.")
    return domain


def told(toll: Toll) -> str:
    """How much goes, as a sentence."""
    counts = {
        "source": toll.sources,
        "item": toll.items,
        "text": toll.texts,
        "image": toll.images,
        "article": toll.articles,
        "alias": toll.aliases,
        "link": toll.links,
        "run": toll.runs,
    }
    said = [counted(count, noun) for noun, count in counts.items() if count]
    kept = f"; {counted(toll.kept, 'item')} kept, because other sources list {'it' if toll.kept == 1 else 'them'}"
    return (", ".join(said) or "nothing") + (kept if toll.kept else "") + "."


def counted(count: int, noun: str) -> str:
    """`1 item`, `2 items`."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"
