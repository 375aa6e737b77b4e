"""Rename a category, or drop it."""

from __future__ import annotations

from core.feeds.io.category_changes import CategoryChanges
from core.feeds.io.link_store import Ttls
from core.feeds.io.subscription_sync import notes_on_files
from core.registry.io.item_forgetter import removal_counts
from workers.web.pace_models import CategoryChangeAnswer, DropCategoryRequest, RenameCategoryRequest
from workers.web.routing import Call, RouteTable

ROUTES = RouteTable("feeds")


@ROUTES.add(
    "POST",
    "/api/categories/{name}/rename",
    "Rename a category with its feeds, links and articles; into an existing one merges them.",
    fields_in="body",
    seconds=None,
)
async def rename(call: Call, asked: RenameCategoryRequest) -> CategoryChangeAnswer:
    """Rename a category, or merge it into one that exists."""
    changes = _changes(call, dry_run=asked.dry_run)
    await changes.rename(asked.name, asked.to)
    return _answer(call, changes, asked.name, asked.to, dry_run=asked.dry_run)


@ROUTES.add(
    "DELETE",
    "/api/categories/{name}",
    "Drop a category with its feeds and links, and the articles that no other category has.",
    is_destructive=True,
    seconds=None,
)
async def drop(call: Call, asked: DropCategoryRequest) -> CategoryChangeAnswer:
    """Drop a category."""
    changes = _changes(call, dry_run=asked.dry_run)
    await changes.drop(asked.name)
    return _answer(call, changes, asked.name, "", dry_run=asked.dry_run)


def _changes(call: Call, *, dry_run: bool) -> CategoryChanges:
    services = call.services
    return CategoryChanges(services.client, services.keys, Ttls.of(services.settings), dry_run=dry_run)


def _answer(call: Call, changes: CategoryChanges, name: str, new: str, *, dry_run: bool) -> CategoryChangeAnswer:
    counts = changes.counts
    return CategoryChangeAnswer(
        feeds=counts.feeds,
        links=counts.links,
        articles=changes.articles,
        removed=removal_counts(counts.forgotten),
        dry_run=dry_run,
        notes=notes_on_files(call.services.settings, name, counts.origins, new),
    )
