"""Rename a category or drop it."""

from __future__ import annotations

from core.feeds.io.category_changes import CategoryChanges
from core.feeds.io.link_store import Ttls
from core.feeds.io.subscription_sync import notes_on_files
from core.runtime.terminal import echo
from scripts import command_line
from scripts.tables import counted, removal_summary


async def rename(old: str, new: str, dry_run: bool) -> int:
    async with command_line.open_session() as (settings, keys, client):
        changes = CategoryChanges(client, keys, Ttls.of(settings), dry_run=dry_run)
        await changes.rename(old, new)
    counts = changes.counts
    moved = [counted(counts.feeds, "feed"), counted(counts.links, "link"), counted(changes.articles, "article")]
    echo(f"{'Would rename' if dry_run else 'Renamed'} {old} to {new}: {', '.join(moved)}.")
    for note in notes_on_files(settings, old, counts.origins, new):
        echo(note)
    return 0


async def drop(category: str, dry_run: bool) -> int:
    """Drop a category with its feeds and links, and the articles that no other category has."""
    async with command_line.open_session() as (settings, keys, client):
        changes = CategoryChanges(client, keys, Ttls.of(settings), dry_run=dry_run)
        await changes.drop(category)
    counts = changes.counts
    kept = f" ({counts.kept_feeds} in other categories, too)" if counts.kept_feeds else ""
    shared = f"; {counted(changes.articles, 'article')} kept in other categories" if changes.articles else ""
    left = f"{counted(counts.feeds, 'feed')}{kept}, {counted(counts.links, 'link')}{shared}."
    echo(f"{'Would drop' if dry_run else 'Dropped'} {category}: {left}")
    echo(f"{'Would forget' if dry_run else 'Forgot'}: {removal_summary(counts.forgotten)}")
    for note in notes_on_files(settings, category, counts.origins):
        echo(note)
    return 0
