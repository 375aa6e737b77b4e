"""Find names of categories and domains in a query that do not exist: a misspelt one looks like one without results."""

from __future__ import annotations

from core.keys import Keys
from core.search.models import Filters
from core.store.connect import Client


async def unknown_names(client: Client, keys: Keys, filters: Filters) -> list[str]:
    """Return a sentence for each category and domain of the filters that does not exist."""
    if not (filters.categories or filters.domains):
        return []
    from core.feeds.io.subscriptions import Subscriptions  # here: most queries name none, and no command imports it
    from core.sources.io.domain_store import DomainStore

    categories, domains = await Subscriptions(client, keys).categories(), await DomainStore(client, keys).ids()
    return [
        f"There is no {kind} {name}; there are: {', '.join(known) or 'none'}."
        for kind, names, known in (("category", filters.categories, categories), ("domain", filters.domains, domains))
        for name in names
        if name not in known
    ]
