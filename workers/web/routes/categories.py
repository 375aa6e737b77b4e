"""Categories, and all subscriptions as OPML."""

from __future__ import annotations

from aiohttp import web

from core.feeds.io.manual_poll import choose_feeds, make_due, require_unpaused
from core.feeds.io.opml import export_opml, import_opml
from core.registry.io.overview import Overview
from core.store import connect
from core.urls.secrets import redact
from workers.web.category_models import (
    CategoriesAnswer,
    CategoryAnswer,
    CategoryPollAnswer,
    CategoryRequest,
    OpmlAnswer,
    OpmlRequest,
    PollCategoryRequest,
)
from workers.web.errors import ApiError
from workers.web.models import NoParameters
from workers.web.routing import Call, RouteTable, StoreCall

ROUTES = RouteTable("feeds")
OPML = "text/x-opml"
XML = "application/xml"


@ROUTES.add("GET", "/api/categories", "All categories with the number of their feeds, links and articles.")
async def list_categories(call: StoreCall, _: NoParameters) -> CategoriesAnswer:
    """List categories with the number of their feeds, links and articles."""
    subscriptions = call.services.context.subscriptions
    by_category = await subscriptions.by_category()
    answers = [await _answer(call, name, len(by_category.get(name, ()))) for name in await subscriptions.categories()]
    return CategoriesAnswer(categories=answers)


@ROUTES.add("GET", "/api/categories/{name}", "One category.")
async def show_category(call: Call, asked: CategoryRequest) -> CategoryAnswer:
    """Return one category."""
    subscriptions = call.services.context.subscriptions
    name = await subscriptions.require_category(asked.name)
    return await _answer(call, name, len((await subscriptions.by_category()).get(name, ())))


async def _answer(call: StoreCall, name: str, feeds: int) -> CategoryAnswer:
    links, articles = await Overview(call.services.client, call.services.keys).category(name)
    return CategoryAnswer(name=name, feeds=feeds, links=links, articles=articles)


@ROUTES.add(
    "POST", "/api/categories/{name}/poll", "Have all feeds of a category polled now by the ingestor.", fields_in="body"
)
async def poll_category(call: Call, asked: PollCategoryRequest) -> CategoryPollAnswer:
    """Make all feeds of a category due; a running ingestor polls them within a second."""
    services, context = call.services, call.services.context
    await require_unpaused(services.client, services.keys)
    urls = await choose_feeds(context.subscriptions, category=asked.name)
    waiting = await make_due(context.feeds, urls, await connect.now(services.client), force=asked.force)
    return CategoryPollAnswer(
        due=len(urls) - len(waiting), waiting={redact(report.url): report.reason for report in waiting}
    )


@ROUTES.add("GET", "/api/opml", "All subscriptions as OPML 2.0.", other_types=(OPML,))
async def write_opml(call: Call, _: NoParameters) -> web.Response:
    """Return all subscriptions."""
    context = call.services.context
    return web.Response(body=await export_opml(context.subscriptions, context.feeds), content_type=OPML)


@ROUTES.add(
    "POST",
    "/api/opml",
    "Subscribe to the feeds of an OPML document; its folders become categories.",
    body_type=XML,
    other_body_types=("text/xml", OPML),
)
async def read_opml(call: Call, asked: OpmlRequest) -> OpmlAnswer:
    """Subscribe to the feeds of a document."""
    if not call.body.strip():
        raise ApiError(422, "invalid", "There is no OPML document in the body.", "Send the file as it is.")
    origin = f"api:{asked.name}" if asked.name else ""
    done = await import_opml(call.services.context.subscriptions, call.body, origin=origin)
    return OpmlAnswer(added=done.added, removed=done.removed, refused=[redact(url) for url in done.refused])
