"""Entries of the feed of failures: one for each subscribed feed that broke, with why and since when."""

from __future__ import annotations

from collections.abc import Sequence

from core import ids
from core.feeds.feed_state import FeedState, FeedStatus
from core.outputs.published_feed import PublishedEntry, tag_uri, web_link
from core.registry.record import iso
from core.urls.secrets import redact


def broken_feed_entry(state: FeedState, categories: Sequence[str], fallback_link: str) -> PublishedEntry:
    """Return the entry of one break: the next break of the same feed is another entry, a further failed poll is not."""
    url, since_ts = redact(state.url), state.broken_since_ts
    reason = redact(state.error_text) or "It gave no reason."
    name = f"{state.title} ({url})" if state.title else url
    paragraphs = (
        f"The feed {name} is broken since {iso(since_ts)}.",
        f"Why: {reason}",
        f"Kind of error: {state.error_class}." if state.error_class else "",
        f"Categories: {', '.join(sorted(categories))}.",
        "It is not polled any more." if state.status is FeedStatus.GONE else "It is tried again by itself.",
    )
    return PublishedEntry(
        id=tag_uri(f"feed/{ids.feed_id(state.url)}/{int(since_ts)}"),
        link=web_link(state.url) or fallback_link,
        title=f"Feed broken: {state.title or url}",
        published_ts=since_ts,
        updated_ts=since_ts,
        summary=reason,
        text="\n\n".join(filter(None, paragraphs)),
        categories=tuple(sorted(categories)),
    )
