"""List feeds, and say how each is doing."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from core import ids
from core.feeds.feed_health import FeedPace, feed_json, why_silent
from core.feeds.feed_state import FeedState
from core.feeds.io.broken_feeds import BrokenFeeds
from core.feeds.io.failed_entries import FailedEntries, FailedEntry
from core.feeds.io.feed_options import FeedOptions
from core.feeds.io.feed_store import FeedStore
from core.feeds.io.link_store import Ttls
from core.feeds.io.subscriptions import Subscriptions
from core.pages.text_cleaning import printable_line
from core.runtime.terminal import echo
from core.store import connect
from core.urls.secrets import redact
from scripts import command_line
from scripts.command_names import command
from scripts.feeds_set import gap_text, option_text
from scripts.tables import ago, ahead, table

MOST_FAILED = 10


async def list_feeds(*, as_json: bool = False) -> int:
    """Print every category with its feeds; for programs, every feed with its categories."""
    async with command_line.open_session() as (settings, keys, client):
        subscriptions = Subscriptions(client, keys)
        feeds, by_feed = await subscriptions.by_category(), await subscriptions.by_feed()
        paces = await FeedOptions(client, keys, settings).of_feeds(list(by_feed))
    if as_json:
        rows = [{"url": url, "categories": names, **paces[url].to_json()} for url, names in sorted(by_feed.items())]
        command_line.print_json(rows)
        return 0
    for category, listed in feeds.items():
        lines = (f"    {printable_line(url)}{_options(paces[url])}" for url in listed)
        echo(printable_line(category), *lines, sep="\n")
    return 0


def _options(pace: FeedPace) -> str:
    return "" if pace.option.is_empty else f"  ({option_text(pace.option)})"


async def health(url: str | None, *, only_broken: bool = False, as_json: bool = False) -> int:
    """Print how the feeds are, or only those that broke, or one of them in full."""
    async with command_line.open_session() as (settings, keys, client):
        subscriptions = Subscriptions(client, keys)
        by_feed = await subscriptions.by_feed()
        urls = [await subscriptions.require(url)] if url else sorted(by_feed)
        if only_broken:
            url_of = {ids.feed_id(one): one for one in urls}
            urls = [url_of[fid] for fid in await BrokenFeeds(client, keys).since() if fid in url_of]
        states = await FeedStore(client, keys, Ttls.of(settings)).states(urls)
        paces = await FeedOptions(client, keys, settings).of_feeds(urls)
        failed = await FailedEntries(client, keys).of_feed(urls[0], MOST_FAILED) if url else []
        now = await connect.now(client)
    if as_json:
        told = [feed_json(state, by_feed.get(state.url, ()), now, paces[state.url]) for state in states]
        entries = [entry.to_json() for entry in failed]
        command_line.print_json({**told[0], "failed_entries": entries} if url else told)
        return 0
    if only_broken and not states:
        echo("No feed is broken.")
        return 0
    head = ("STATUS", "LAST POLL", "NEXT POLL", "WHY THEN", "304 %", "DUP %", "LAST NEW", "FEED", "TROUBLE")
    echo(_details(states[0], paces[urls[0]], now) if url else table(head, [_row(state, now) for state in states]))
    for line in _failed_lines(failed, now):
        echo(line)
    return 0


def _failed_lines(failed: Sequence[FailedEntry], now: float) -> Iterator[str]:
    """Return the entries that gave no article, each with the command that tells its whole trail."""
    if failed:
        yield "  failed entries"
    for entry in failed:
        again = f", again {ahead(entry.retry_ts, now)}" if entry.retry_ts else ""
        reason = printable_line(redact(entry.text)).rstrip(".")
        yield f"    {ago(entry.failed_ts, now)}  {entry.code}  {reason}{again}"
        yield f"        {command(f'why {shlex.quote(redact(entry.url))}')}"


def _row(state: FeedState, now: float) -> tuple[object, ...]:
    trouble = f"{state.error_class}: {state.error_text}" if state.error_class else state.rejected_example
    if state.entries_left_out:
        trouble = "; ".join(filter(None, (_left_out(state), trouble)))
    return (
        state.status,
        ago(state.last_poll_ts, now),
        ahead(state.next_poll_ts, now),
        state.next_poll_reason or "–",
        state.percent_304,
        state.percent_duplicate,
        ago(state.last_new_ts, now),
        redact(state.url),
        redact(trouble[:100]),
    )


def _left_out(state: FeedState) -> str:
    total = state.entries + state.entries_left_out
    return f"only {state.entries:,} of {total:,} entries are read"


def _details(state: FeedState, pace: FeedPace, now: float) -> str:
    example = state.rejected_example
    lines = [
        redact(state.url),
        f"  status      {state.status}{f' ({state.error_class}: {state.error_text})' if state.error_class else ''}",
        f"  title       {printable_line(state.title) or '–'} [{state.kind or 'not read yet'}]",
        f"  last poll   {ago(state.last_poll_ts, now)}, HTTP {state.last_status or '–'}",
        f"  next poll   {ahead(state.next_poll_ts, now)}: {state.next_poll_reason or 'it is new'}",
        f"  last new    {ago(state.last_new_ts, now)}",
        f"  polls       {state.polls}, {state.percent_304} % answered 304",
        f"  links       {state.links_found}, {state.percent_duplicate} % known already",
        f"  last body   {state.entries} entries, {state.rejected} rejected{f' ({example})' if example else ''}",
    ]
    if not pace.option.is_empty:
        lines.append(f"  options     {option_text(pace.option)}")
    if pace.host:
        lines.append(f"  its host    {gap_text(pace.host)}")
    if state.entries_left_out:
        lines.append(f"  left out    {_left_out(state)}")
    if silent := why_silent(state, now):
        lines.append(f"  silent      {printable_line(redact(silent))}")
    if state.fetch_url:
        lines.append(f"  moved to    {redact(state.fetch_url)}")
    return "\n".join([*lines, "  events", *(f"    {event}" for event in state.events)])
