"""Categories, their changes, and all subscriptions as OPML."""

from __future__ import annotations

from aiohttp import web
from pydantic import Field

from core.feeds.io.category_changes import CategoryChanges
from core.feeds.io.link_store import Ttls
from core.feeds.io.manual_poll import choose_feeds, make_due, require_unpaused
from core.feeds.io.opml import export_opml, import_opml
from core.feeds.io.subscription_sync import notes_on_files
from core.registry.io.item_forgetter import removal_counts
from core.registry.io.store_counts import StoreCounts
from core.urls.secrets import redact
from workers.web.errors import ApiError
from workers.web.models import AnswerModel, Flag, Name, NoParameters, RequestModel
from workers.web.routes.feeds import CategoryName
from workers.web.routing import Call, RouteTable, StoreCall


class CategoryAnswer(AnswerModel):
    """A category and how much is in it."""

    name: str
    feeds: int
    links: int
    articles: int


class CategoriesAnswer(AnswerModel):
    """All categories."""

    categories: list[CategoryAnswer]


class CategoryRequest(RequestModel):
    """One category."""

    name: CategoryName


class PollCategoryRequest(CategoryRequest):
    """A category whose feeds are polled now."""

    force: bool = Field(default=False, description="Read them again, also if they have not changed.")


class CategoryPollAnswer(AnswerModel):
    """What was made due."""

    due: int
    waiting: dict[str, str] = Field(description="Feeds whose server asked for a pause, with the reason.")


class OpmlRequest(RequestModel):
    """An OPML document."""

    name: Name = Field(
        default="", description="A name for the document: a later import of it removes what it no longer has."
    )


class OpmlAnswer(AnswerModel):
    """What an import did."""

    added: int
    removed: int
    refused: list[str] = Field(description="Entries that are not http(s) URLs; the others are imported.")


ROUTES = RouteTable("feeds")
OPML = "text/x-opml"
XML = "application/xml"


@ROUTES.add("GET", "/api/categories")
async def list_categories(call: StoreCall, _: NoParameters) -> CategoriesAnswer:
    """All categories with the number of their feeds, links and articles."""
    subscriptions = call.context.subscriptions
    by_category = await subscriptions.by_category()
    answers = [await _answer(call, name, len(by_category.get(name, ()))) for name in await subscriptions.categories()]
    return CategoriesAnswer(categories=answers)


@ROUTES.add("GET", "/api/categories/{name}")
async def show_category(call: Call, asked: CategoryRequest) -> CategoryAnswer:
    """One category."""
    subscriptions = call.context.subscriptions
    name = await subscriptions.require_category(asked.name)
    return await _answer(call, name, len((await subscriptions.by_category()).get(name, ())))


async def _answer(call: StoreCall, name: str, feeds: int) -> CategoryAnswer:
    links, articles = await StoreCounts(call.client, call.keys).category(name)
    return CategoryAnswer(name=name, feeds=feeds, links=links, articles=articles)


@ROUTES.add("POST", "/api/categories/{name}/poll", fields_in="body")
async def poll_category(call: Call, asked: PollCategoryRequest) -> CategoryPollAnswer:
    """Have all feeds of a category polled now by the ingestor."""
    await require_unpaused(call.client, call.keys)
    urls = await choose_feeds(call.context.subscriptions, category=asked.name)
    waiting = await make_due(call.context.feeds, urls, await call.now(), force=asked.force)
    return CategoryPollAnswer(
        due=len(urls) - len(waiting), waiting={redact(report.url): report.reason for report in waiting}
    )


@ROUTES.add("GET", "/api/opml", other_types=(OPML,))
async def write_opml(call: Call, _: NoParameters) -> web.Response:
    """All subscriptions as OPML 2.0."""
    context = call.context
    return web.Response(body=await export_opml(context.subscriptions, context.feeds), content_type=OPML)


@ROUTES.add("POST", "/api/opml", body_type=XML, other_body_types=("text/xml", OPML))
async def read_opml(call: Call, asked: OpmlRequest) -> OpmlAnswer:
    """Subscribe to the feeds of an OPML document; its folders become categories."""
    if not call.body.strip():
        raise ApiError(422, "invalid", "There is no OPML document in the body.", "Send the file as it is.")
    origin = f"api:{asked.name}" if asked.name else ""
    done = await import_opml(call.context.subscriptions, call.body, origin=origin)
    return OpmlAnswer(added=done.added, removed=done.removed, refused=[redact(url) for url in done.refused])


class RenameCategoryRequest(CategoryRequest):
    """A category and its new name."""

    to: CategoryName = Field(description="a-z, 0-9, _ and -. A category that exists takes the other in.")
    dry_run: bool = Field(default=False, description="Only say how much that is.")


class DropCategoryRequest(CategoryRequest):
    """A category that is to go."""

    dry_run: Flag = Field(default=False, description="Only say how much that is.")


class CategoryChangeAnswer(AnswerModel):
    """What a change of a category moved, or would move."""

    feeds: int
    links: int
    articles: int = Field(description="Articles that have another category now.")
    removed: dict[str, int] = Field(description="What the dropped category alone had.")
    dry_run: bool
    notes: list[str] = Field(description="Files that bring the category back, and what to do about it.")


@ROUTES.add("POST", "/api/categories/{name}/rename", fields_in="body", seconds=None)
async def rename(call: Call, asked: RenameCategoryRequest) -> CategoryChangeAnswer:
    """Rename a category with its feeds, links and articles; into an existing one merges them."""
    changes = _changes(call, dry_run=asked.dry_run)
    await changes.rename(asked.name, asked.to)
    return _change_answer(call, changes, asked.name, asked.to, dry_run=asked.dry_run)


@ROUTES.add("DELETE", "/api/categories/{name}", is_destructive=True, seconds=None)
async def drop(call: Call, asked: DropCategoryRequest) -> CategoryChangeAnswer:
    """Drop a category with its feeds and links, and the articles that no other category has."""
    changes = _changes(call, dry_run=asked.dry_run)
    await changes.drop(asked.name)
    return _change_answer(call, changes, asked.name, "", dry_run=asked.dry_run)


def _changes(call: Call, *, dry_run: bool) -> CategoryChanges:
    return CategoryChanges(call.client, call.keys, Ttls.of(call.settings), dry_run=dry_run)


def _change_answer(call: Call, changes: CategoryChanges, name: str, new: str, *, dry_run: bool) -> CategoryChangeAnswer:
    counts = changes.counts
    return CategoryChangeAnswer(
        feeds=counts.feeds,
        links=counts.links,
        articles=changes.articles,
        removed=removal_counts(counts.forgotten),
        dry_run=dry_run,
        notes=notes_on_files(call.settings, name, counts.origins, new),
    )
