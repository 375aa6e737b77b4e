"""Find what `freshet forget` names, and forget it: a page by any of its names, or a feed with what it alone listed."""

from __future__ import annotations

from pathlib import Path

from core.errors import NotFound
from core.keys import Keys
from core.registry.io.item_forgetter import ForgetCounts, ItemForgetter
from core.registry.io.item_queries import ItemQueries
from core.registry.io.link_forgetter import LinkForgetter
from core.settings import Settings
from core.store.connect import Client
from core.urls.secrets import redact


async def forget_page(
    settings: Settings, client: Client, keys: Keys, name: str, *, folder: Path = Path("/"), dry_run: bool = False
) -> ForgetCounts:
    """Forget an item and every link that leads to it; raise NotFound if there is nothing of that name.

    `folder`: where a relative path begins.
    """
    queries = ItemQueries(client, keys, settings.tracking_param_prefixes)
    named = await queries.resolve(name, folder)
    parent = await queries.parent_of(named.item_id)
    if parent:
        raise NotFound(f"{redact(name)} is an image of {parent} and goes with it: python -m scripts.forget {parent}")
    forgetter = ItemForgetter(client, keys, dry_run=dry_run)
    if not await LinkForgetter(forgetter).page(named.item_id, named.uid):
        raise NotFound(f"{redact(name)} is neither in the registry nor in a link set; there is nothing of it.")
    return forgetter.counts


async def forget_subscription(
    client: Client, keys: Keys, url: str, *, dry_run: bool = False
) -> tuple[ForgetCounts, list[str]]:
    """Forget a feed and what it alone listed; return the categories it was in. Raises NotFound."""
    forgetter = ItemForgetter(client, keys, dry_run=dry_run)
    was_in = await LinkForgetter(forgetter).feed(url)
    if was_in is None:
        raise NotFound(f"{redact(url)} is in no category. `python -m scripts.feeds list` shows what is there.")
    return forgetter.counts, was_in
