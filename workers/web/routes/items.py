"""Items of the registry: the list, one in full, and why a URL is there or not."""

from __future__ import annotations

from dataclasses import asdict

from pydantic import Field

from core.registry.io.item_details import ItemDetailsReader, SameText, TextSummary
from core.registry.io.item_list import ItemFilter, ItemList, ListedItem
from core.registry.io.why_trail_reader import explain_url
from core.registry.record import ARTICLES_SOURCE, URLS_SOURCE, Status
from core.registry.why_verdict import NearMiss
from core.runtime.api_results import ExplainedStation, ExplainedUrl
from core.sources.io.domain_store import DomainStore
from workers.web.errors import ApiError
from workers.web.models import AnswerModel, Cursor, Flag, Limit, Name, RequestModel, adapter, shown
from workers.web.routing import Call, RouteTable, StoreCall


class ItemsRequest(RequestModel):
    """Which items."""

    status: Status | None = Field(default=None, description="Empty: any.")
    source: Name = Field(default="", description="A source: rss, urls, or <domain>.<source>.")
    domain: Name = ""
    host: Name = ""
    images: Flag = Field(default=False, description="With images, which are items of their own.")
    limit: Limit = 50
    cursor: Cursor = ""


class ItemAnswer(AnswerModel):
    """An item without its text."""

    id: str
    status: Status
    type: str
    url: str
    host: str
    sources: list[str]
    language: str
    mime_type: str
    article_uid: str
    parent_id: str = Field(description="The page of an image.")
    error: str
    next_check_at: str = Field(description="Empty: not before a reindex.")
    changed_at: str
    verified_by: str
    verified_ts: float
    checked_ts: float


class ItemsAnswer(AnswerModel):
    """Some items."""

    items: list[ItemAnswer]
    cursor: str = Field(description="For the next page; empty: there are no more. A page may be short, or empty.")


class ItemRequest(RequestModel):
    """One item."""

    id: str = Field(
        max_length=64,
        pattern=r"^[0-9A-Za-z_]+$",
        description="An item id, or the uid of an article.",
        examples=["url_mf2c5gkqeu3zq2jv4twsdhy7ae"],
    )


class ItemDetailsAnswer(AnswerModel):
    """One item in full."""

    id: str
    record: dict[str, str] = Field(description="The registry record as it is stored.")
    sources: dict[str, float | None] = Field(description="When each of its sources checks it next.")
    verified_by: str
    verified_ts: float
    checked_ts: float
    text: TextSummary | None
    chunks: int
    is_waiting_for_vectors: bool
    images: list[str]
    aliases: list[str]
    same_text: list[SameText] = Field(description="Articles with the same text, at most 50.")


class WhyRequest(RequestModel):
    """A URL that is missing."""

    url: str = Field(
        min_length=1,
        max_length=8_000,
        description="A URL, an item id or the uid of an article.",
        examples=["https://example.org/a"],
    )


shown(ExplainedStation, "StationAnswer")
shown(NearMiss, "NearMissAnswer")
shown(ExplainedUrl, "WhyAnswer")
ROUTES = RouteTable("items")


@ROUTES.add("GET", "/api/items")
async def list_items(call: Call, asked: ItemsRequest) -> ItemsAnswer:
    """Items of the registry by status, source, domain or host."""
    wanted = ItemFilter(
        (asked.status,) if asked.status else (), await _sources(call, asked), asked.host, with_images=asked.images
    )
    items = ItemList(call.client, call.keys, call.settings.registry_partition_strategy)
    page = await items.page(wanted, asked.limit, asked.cursor)
    return ItemsAnswer(items=[_answer(one) for one in page.items], cursor=page.cursor)


async def _sources(call: Call, asked: ItemsRequest) -> tuple[str, ...]:
    if asked.source and asked.domain:
        raise ApiError(422, "invalid", "source and domain are there both.", "Name a source, or a whole domain.")
    if asked.domain:
        return (await DomainStore(call.client, call.keys).require(asked.domain)).sources
    if not asked.source:
        return ()
    is_known = asked.source in (ARTICLES_SOURCE, URLS_SOURCE) or await call.context.sources.has(asked.source)
    if not is_known:
        raise ApiError(404, "not_found", f"There is no source {asked.source}.", "GET /v2/domains lists them.")
    return (asked.source,)


def _answer(item: ListedItem) -> ItemAnswer:
    values = asdict(item)
    return ItemAnswer(**values.pop("verification"), **values)


@ROUTES.add("GET", "/api/items/why")
async def explain(call: StoreCall, asked: WhyRequest) -> ExplainedUrl:
    """Why a URL is there, or not: who lists it, what became of it, what happens next.

    Nothing is changed or requested.
    """
    now = await call.now()
    trail = await explain_url(call.client, call.keys, call.settings, asked.url, now)
    found: ExplainedUrl = adapter(ExplainedUrl).validate_python(trail.to_json())
    return found


@ROUTES.add("GET", "/api/items/{id}")
async def show_item(call: Call, asked: ItemRequest) -> ItemDetailsAnswer:
    """One item: its record, sources, text in short and number of chunks."""
    reader = ItemDetailsReader(call.client, call.keys, call.settings.tracking_param_prefixes)
    values = asdict(await reader.require(asked.id))
    return ItemDetailsAnswer(**values.pop("verification"), **values)
