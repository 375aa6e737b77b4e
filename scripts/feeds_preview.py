"""Say what a subscription would bring."""

from __future__ import annotations

from core.feeds.io.feed_preview import preview_feed
from core.pages.text_cleaning import printable_line
from core.runtime.terminal import echo
from core.urls.secrets import redact
from scripts import command_line
from scripts.tables import counted, table


async def preview(category: str, url: str) -> int:
    async with command_line.open_context() as context:
        found = await preview_feed(context, url, category)
    echo(f"{redact(found.feed.url)} ({printable_line(found.feed.title) or 'untitled'}) [{found.kind}]")
    if found.subscribed:
        echo(f"It is in {', '.join(found.subscribed)} already.")
    refused = f"{found.rejected_links:,} refused"
    echo(f"In {found.category}: {counted(found.new_links, 'new link')}, {found.known_links:,} known, {refused}.")
    if found.entries:
        rows = [("new" if one.is_new else "known", redact(one.url), printable_line(one.title)) for one in found.entries]
        echo(table(("", "LINK", "TITLE"), rows))
    if found.rejected:
        echo(table(("REFUSED", "LINK"), [(one.reason, printable_line(redact(one.url))) for one in found.rejected]))
    for other in found.others:
        echo(f"Also there: {redact(other.url)}  {printable_line(other.title) or 'untitled'}")
    return 0
