"""Items of the registry: the list, one in full, and why a URL is there or not."""

from __future__ import annotations

from dataclasses import asdict

from core.registry.io.item_details import ItemDetailsReader
from core.registry.io.item_list import ItemFilter, ItemList, ListedItem
from core.registry.io.why_trail_reader import explain_url
from core.registry.record import ARTICLES_SOURCE, URLS_SOURCE
from core.sources.io.domain_store import DomainStore
from core.store import connect
from workers.web.errors import ApiError
from workers.web.item_models import (
    ItemAnswer,
    ItemDetailsAnswer,
    ItemRequest,
    ItemsAnswer,
    ItemsRequest,
    WhyAnswer,
    WhyRequest,
)
from workers.web.routing import Call, RouteTable, StoreCall

ROUTES = RouteTable("items")


@ROUTES.add("GET", "/api/items", "Items of the registry by status, source, domain or host.")
async def list_items(call: Call, asked: ItemsRequest) -> ItemsAnswer:
    """List items page by page."""
    services = call.services
    wanted = ItemFilter(
        (asked.status,) if asked.status else (), await _sources(call, asked), asked.host, with_images=asked.images
    )
    items = ItemList(services.client, services.keys, services.settings.registry_partition_strategy)
    page = await items.page(wanted, asked.limit, asked.cursor)
    return ItemsAnswer(items=[_answer(one) for one in page.items], cursor=page.cursor)


async def _sources(call: Call, asked: ItemsRequest) -> tuple[str, ...]:
    services = call.services
    if asked.source and asked.domain:
        raise ApiError(422, "invalid", "source and domain are there both.", "Name a source, or a whole domain.")
    if asked.domain:
        return (await DomainStore(services.client, services.keys).require(asked.domain)).sources
    if not asked.source:
        return ()
    is_known = asked.source in (ARTICLES_SOURCE, URLS_SOURCE) or await services.context.sources.has(asked.source)
    if not is_known:
        raise ApiError(404, "not_found", f"There is no source {asked.source}.", "GET /v2/domains lists them.")
    return (asked.source,)


def _answer(item: ListedItem) -> ItemAnswer:
    values = asdict(item)
    return ItemAnswer(**values.pop("verification"), **values)


@ROUTES.add("GET", "/api/items/why", "Why a URL is there, or not: who lists it, what became of it, what happens next.")
async def explain(call: StoreCall, asked: WhyRequest) -> WhyAnswer:
    """Return the whole trail of a URL; nothing is changed or requested."""
    services = call.services
    now = await connect.now(services.client)
    trail = await explain_url(services.client, services.keys, services.settings, asked.url, now)
    return WhyAnswer.model_validate(trail.to_json())


@ROUTES.add("GET", "/api/items/{id}", "One item: its record, sources, text in short and number of chunks.")
async def show_item(call: Call, asked: ItemRequest) -> ItemDetailsAnswer:
    """Return an item with its record, sources, text in short and chunks."""
    services = call.services
    reader = ItemDetailsReader(services.client, services.keys, services.settings.tracking_param_prefixes)
    values = asdict(await reader.require(asked.id))
    return ItemDetailsAnswer(**values.pop("verification"), **values)
