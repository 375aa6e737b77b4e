"""Build the result of a crawl: was the listing complete, could the site be read, what should a person know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from core.models import Deferred, Failed, ListingEnd
from core.runs.run import RunStatus
from core.runtime.context import Context
from core.sources.io.source import CUT_SHORT, LINKS_DECIDE, UNCHANGED, Source
from core.value_class import value_class

HELD, INCOMPLETE, UNPUBLISHED = "held", "incomplete", "unpublished"
"""Problems of a partial run: the loss guard kept what would have been removed; the listing did not come to its end; the
vector store could not be brought up to date."""


def notes(source: Source, end: ListingEnd | None, details: Mapping[str, str]) -> list[str]:
    """Return phrases for people, from the source, its listing's end and what is stored about it."""
    how = end.reason.removeprefix(LINKS_DECIDE).removeprefix("; ") if end else CUT_SHORT
    phrases = [details.get("held", ""), source.news, "" if how == UNCHANGED else how, details.get("full", "")]
    return [phrase for phrase in phrases if phrase]


def is_listing_incomplete(source: Source, end: ListingEnd | None) -> bool:
    """Could a folder or repository not be listed to its end? A site is never listed whole: its links decide."""
    is_whole = end is not None and (end.is_complete or end.reason == UNCHANGED)
    return source.is_listing_evidence and not is_whole


@value_class
class RunEnd:
    status: RunStatus
    problem: str = ""
    """Why it is partial: `held`, `incomplete` or `unpublished`; empty if only items failed."""
    sentence: str = ""

    @property
    def is_success(self) -> bool:
        """Whether the source was listed as far as it can be, though some of its items may have failed."""
        return self.status is RunStatus.SUCCEEDED or (self.status is RunStatus.PARTIAL and not self.problem)


async def end_of_run(
    context: Context,
    source: Source,
    end: ListingEnd | None,
    counts: Mapping[str, int],
    details: Mapping[str, str],
    *,
    is_network_down: bool,
    is_root_due: bool,
    since: float,
    publish_problem: str = "",
) -> RunEnd:
    """Return how a run ended that was not stopped: the worst end that applies."""
    if is_network_down:
        return RunEnd(RunStatus.PARTIAL, INCOMPLETE, "nearly no host answers: our own network looks down")
    trouble = await root_trouble(context, source, counts, is_root_due=is_root_due, since=since)
    if trouble:
        return trouble
    if details.get("held"):
        return RunEnd(RunStatus.PARTIAL, HELD)
    if is_listing_incomplete(source, end):
        return RunEnd(RunStatus.PARTIAL, INCOMPLETE)
    if publish_problem:
        return RunEnd(RunStatus.PARTIAL, UNPUBLISHED)
    return RunEnd(RunStatus.PARTIAL if counts.get("failed") else RunStatus.SUCCEEDED)


async def root_trouble(
    context: Context, source: Source, counts: Mapping[str, int], *, is_root_due: bool, since: float
) -> RunEnd | None:
    """Return the end of a run whose site could not be read: every visit failed, or its root was put off.

    `is_root_due`: did this run ask for the root, whatever its own schedule says? `since`: when the run began.
    """
    if not source.follows_links:
        return None
    root = (await context.items.read([source.state.root_id]))[0]
    if root is None:
        return None
    visited = counts.get("visited", 0)
    if visited and counts.get("failed", 0) == visited:
        sentence = f"nothing could be read. {await context.source_items.error_of(root.id)}".strip()
        return RunEnd(RunStatus.FAILED, sentence=sentence)
    if root.checked_ts >= since or (root.checked_ts and not is_root_due):
        return None
    # Put off without a noted reason. Politeness is remembered, so this sends no second request.
    ended = RunEnd(RunStatus.PARTIAL, INCOMPLETE) if visited else RunEnd(RunStatus.FAILED)
    match await source.fetch(root, root.validators):
        case Deferred() as deferred:
            wait = f"{deferred.reason}, {deferred.wait_seconds:.0f} s more"
            return replace(ended, sentence=f"the root could not be read: {wait}")
        case Failed() as failed:
            return replace(ended, sentence=f"the root could not be read: {failed.text or failed.detail}")
    return None
