"""Remove a domain, and say how much went."""

from __future__ import annotations

from core.errors import FreshetError
from core.registry.io.item_forgetter import ForgetCounts, ItemForgetter
from core.runtime.terminal import echo
from core.sources.io.domain_store import DomainStore, StoredDomain
from scripts import session


async def remove(domain_id: str, dry_run: bool) -> int:
    """A domain with all its sources and items."""
    async with session.open_session() as (_, keys, client):
        domain = await known(DomainStore(client, keys), domain_id)
        forgetter = ItemForgetter(client, keys, dry_run=dry_run)
        await forgetter.domain(domain)
    echo(f"{'Would remove' if dry_run else 'Removed'} {domain_id}: {told(forgetter.counts)}")
    return 0


async def known(store: DomainStore, domain_id: str) -> StoredDomain:
    """The domain; else a sentence."""
    domain = await store.read(domain_id)
    if domain is None:
        raise FreshetError(f"There is no domain {domain_id}. `python -m scripts.domain list` shows what there is.")
    return domain


def told(counts: ForgetCounts) -> str:
    """How much goes, as a sentence."""
    by_noun = {
        "source": counts.sources,
        "item": counts.items,
        "text": counts.texts,
        "image": counts.images,
        "article": counts.articles,
        "alias": counts.aliases,
        "link": counts.links,
        "run": counts.runs,
    }
    said = [counted(count, noun) for noun, count in by_noun.items() if count]
    kept = f"; {counted(counts.kept, 'item')} kept, because other sources list {'it' if counts.kept == 1 else 'them'}"
    return (", ".join(said) or "nothing") + (kept if counts.kept else "") + "."


def counted(count: int, noun: str) -> str:
    """`1 item`, `2 items`."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"
