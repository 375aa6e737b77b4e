"""What a run reports: was the listing complete, could the site be read at all, what should a person know?"""

from __future__ import annotations

from collections.abc import Mapping

from core.models import Deferred, Failed, ListingEnd
from core.runtime.context import Context
from core.sources.io.source import CUT_SHORT, LINKS_DECIDE, UNCHANGED, Source


def notes(source: Source, end: ListingEnd | None, details: Mapping[str, str]) -> list[str]:
    """Return phrases for people, from the source, its listing's end and what is stored about it."""
    how = end.reason.removeprefix(LINKS_DECIDE).removeprefix("; ") if end else CUT_SHORT
    phrases = [details.get("held", ""), source.news, "" if how == UNCHANGED else how, details.get("full", "")]
    return [phrase for phrase in phrases if phrase]


def is_listing_incomplete(source: Source, end: ListingEnd | None) -> bool:
    """Could a folder or repository not be listed to its end? A site is never listed whole: its links decide."""
    is_whole = end is not None and (end.is_complete or end.reason == UNCHANGED)
    return source.is_listing_evidence and not is_whole


async def root_trouble(
    context: Context, source: Source, counts: Mapping[str, int], *, is_root_due: bool, since: float
) -> tuple[str, str] | None:
    """Return a run status and a sentence if the site could not be read: every visit failed, or its root was put off.

    `is_root_due`: did this run ask for the root, whatever its own schedule says? `since`: when the run began.
    """
    if not source.follows_links:
        return None
    root = (await context.items.read([source.state.root_id]))[0]
    if root is None:
        return None
    visited = counts.get("visited", 0)
    if visited and counts.get("failed", 0) == visited:
        return "failed", f"nothing could be read. {await context.source_items.error_of(root.id)}".strip()
    if root.checked_ts >= since or (root.checked_ts and not is_root_due):
        return None
    # Put off, and nobody wrote down why. Politeness is remembered, so this sends no second request.
    status = "incomplete" if visited else "failed"
    match await source.fetch(root, root.validators):
        case Deferred() as deferred:
            return status, f"the root could not be read: {deferred.reason}, {deferred.wait_seconds:.0f} s more"
        case Failed() as failed:
            return status, f"the root could not be read: {failed.text or failed.detail}"
    return None
