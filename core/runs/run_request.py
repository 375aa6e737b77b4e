"""Requests to the workers of a run, their replies, and the scopes that are paused or cancelled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from core.ids import domain_of_source
from core.runs.run import RunKind, domain_scope, scope_of, source_scope
from core.value_class import value_class


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


@value_class
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


@value_class
class BlockedScopes:
    """What is paused, what was cancelled, and the open runs by scope."""

    paused: frozenset[str]
    cancelled: frozenset[str]
    open_runs: Mapping[str, str]

    def is_paused(self, sid: str, kind: RunKind) -> bool:
        return not self.paused.isdisjoint({source_scope(sid), domain_scope(domain_of_source(sid)), str(kind)})

    def paused_reindexes(self, sid: str) -> list[str]:
        """Return the open reindexes that are paused and may be about items of a source: of its domain, and of any."""
        scopes = dict.fromkeys(scope_of(RunKind.REINDEX, domain=name) for name in (domain_of_source(sid), ""))
        return [
            self.open_runs[scope]
            for scope in scopes
            if scope in self.open_runs and not self.paused.isdisjoint({scope, str(RunKind.REINDEX)})
        ]

    def paused_embeds(self) -> list[str]:
        """Return the open embeddings that are paused: by themselves, with their domain, or with all others."""
        head = scope_of(RunKind.EMBED, domain="x").removesuffix("x")
        domains = {scope: scope.removeprefix(head) for scope in self.open_runs if scope.startswith(head)}
        return [
            self.open_runs[scope]
            for scope, domain in domains.items()
            if not self.paused.isdisjoint({scope, domain_scope(domain), str(RunKind.EMBED)})
        ]

    def paused_domains(self, sources: Iterable[str]) -> frozenset[str]:
        """Return the domains of an item that these sources list, if all of it is paused; empty: it may be visited."""
        domains = frozenset(map(domain_of_source, sources))
        are_paused = all(domain and domain_scope(domain) in self.paused for domain in domains)
        return domains if are_paused else frozenset()

    def is_refreshed(self, sid: str) -> bool:
        """Return whether jobs may be sent for what is due of a source."""
        return not self.is_paused(sid, RunKind.REFRESH) and source_scope(sid) not in self.cancelled
