"""What tests of a crawled site share: a context that may ask loopback, a source, and what the store has of a page."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from core import ids
from core.models import Ref
from core.registry.io.registrar import Listing, item_id_of
from core.runtime.context import Context, open_context
from core.settings import Settings
from core.sources.io.domain_file import parse_domain
from core.store import connect
from core.urls.normalise import normalise_url

SID = "docs.site"


@asynccontextmanager
async def crawl_context(settings: Settings, **more: Any) -> AsyncIterator[Context]:
    """Open a context that may ask loopback and loses as much as it likes."""
    allowed = {"fetch_allowed_hosts": ("127.0.0.0/8",), "loss_limit_percent": 100.0, **more}
    async with open_context(settings.model_copy(update=allowed)) as context:
        yield context


async def add_site(context: Context, root: str, domain_id: str = "docs", **options: Any) -> None:
    source = {"id": "site", "url": root, **options}
    domain = parse_domain(json.dumps({"id": domain_id, "web_sources": [source]}), "/")
    now = await connect.now(context.client)
    for config in domain.sources():
        ref = Ref(config.config["url"])
        await context.sources.add(config, item_id_of(ref), now)
        await context.registrar.register([ref], Listing(config.sid), now)


class StoredItems:
    """What the store knows of the items of a source, by the names that they have there."""

    context: Context

    def id(self, name: str) -> str:
        raise NotImplementedError

    async def item(self, name: str) -> dict[str, str]:
        return await self.context.client.hgetall(self.context.keys.item(self.id(name)))

    async def text(self, name: str) -> str:
        return await self.context.client.hget(self.context.keys.document(self.id(name)), "markdown") or ""

    async def events(self, kind: str) -> list[dict[str, str]]:
        found = await self.context.client.xrange(self.context.keys.events)
        return [fields for _, fields in found if fields["type"] == kind]


async def item(context: Context, url: str) -> dict[str, str]:
    return await context.client.hgetall(context.keys.item(item_id(url)))


async def text(context: Context, url: str) -> str:
    return await context.client.hget(context.keys.document(item_id(url)), "markdown") or ""


def item_id(url: str) -> str:
    return ids.item_id("url", normalise_url(url))


def counts(run: Mapping[str, str]) -> dict[str, int]:
    names = ("discovered", "visited", "changed", "unchanged", "gone", "failed", "excluded")
    return {name: int(run[name]) for name in names if run[name] != "0"}
