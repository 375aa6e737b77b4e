"""What is asked of the workers of a run, and what nobody may work on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from core.runs.kb_state import domain_of_source
from core.runs.run import RunKind, domain_scope, source_scope


class RunRequest(StrEnum):
    """What the workers of a run are asked to do."""

    NONE = ""
    PAUSE = "pause"
    CANCEL = "cancel"
    ENDED = "ended"
    """It has ended, by another worker or because someone cancelled it."""
    MISSING = "missing"
    """It is not stored any more."""
    TAKEN = "taken"
    """Another run has its scope."""


@dataclass(frozen=True, slots=True)
class RunReply:
    """The reply to one step."""

    status: str
    request: RunRequest
    working: int
    waiting: int
    other: str
    """The run that has the scope, if that is taken."""
    failed_items: int
    """How many items of it are remembered as failed."""


@dataclass(frozen=True, slots=True)
class BlockedScopes:
    """What is paused, what was cancelled, and the open runs by scope."""

    paused: frozenset[str]
    cancelled: frozenset[str]
    open_runs: Mapping[str, str]

    def is_paused(self, sid: str, kind: RunKind) -> bool:
        """Is a source paused, or its domain, or all runs of this kind?"""
        return not self.paused.isdisjoint({source_scope(sid), domain_scope(domain_of_source(sid)), str(kind)})

    def paused_run(self, kind: RunKind) -> str:
        """Return the open run of a kind that has one scope, if that is paused."""
        return self.open_runs.get(str(kind), "") if str(kind) in self.paused else ""

    def is_refreshed(self, sid: str) -> bool:
        """May jobs be sent for what is due of a source?"""
        return not self.is_paused(sid, RunKind.REFRESH) and source_scope(sid) not in self.cancelled
