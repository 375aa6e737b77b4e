"""Could a site be read at all in a pass? If not, its root says why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from core.models import Deferred, Failed
from core.runtime.context import Context
from core.sources.io.source import Source


@dataclass(frozen=True, slots=True)
class RootTrouble:
    """What became of the pass, and why."""

    status: str
    sentence: str


async def find(
    context: Context, source: Source, counts: Mapping[str, int], *, was_asked: bool, since: float
) -> RootTrouble | None:
    """What kept the site from being read: every visit failed, or the root had to be put off.

    `was_asked`: did this pass ask for the root, whatever its own schedule says? `since`: when the pass began.
    """
    if not source.follows_links:
        return None
    root = (await context.items.read([source.state.root_id]))[0]
    if root is None:
        return None
    visited = counts.get("visited", 0)
    if visited and counts.get("failed", 0) == visited:
        return RootTrouble("failed", f"nothing could be read. {await context.members.error_of(root.id)}".strip())
    if root.checked_ts >= since or (root.checked_ts and not was_asked):
        return None
    # Put off, and nobody wrote down why: politeness is remembered, so this asks nobody twice.
    answer = await source.fetch(root, root.validators)
    status = "incomplete" if visited else "failed"
    match answer:
        case Deferred():
            return RootTrouble(status, f"the root could not be read: {answer.reason}, {answer.wait_seconds:.0f} s more")
        case Failed():
            return RootTrouble(status, f"the root could not be read: {answer.text or answer.detail}")
    return None
