"""Response models of the throttle route."""

from __future__ import annotations

from pydantic import Field

from workers.web.models import AnswerModel


class WaitingGateAnswer(AnswerModel):
    """A registrable domain, or a host with a pace of its own, at which requests wait."""

    place: str
    closed_until_ts: float | None = Field(description="Until when a server asked us to stay away; null: none did.")
    reason: str
    asked_by: str = Field(description="The host that asked; its whole domain is left alone.")
    gap_seconds: float = Field(description="Between two requests, as it is now.")
    crawl_delay_seconds: float | None = Field(description="The gap that robots.txt asks for, where it is longer.")
    parallel: int | None
    in_line: int
    under_way: int
    last_ts: float | None
    until_ts: float | None = Field(description="When the wait ends.")


class UnreadableRobotsAnswer(AnswerModel):
    """An origin whose robots.txt cannot be read; nothing is fetched there meanwhile."""

    origin: str
    until_ts: float
    status: str
    problem: str


class UntrustedHostAnswer(AnswerModel):
    """A host that answered 304 for a page that had changed."""

    host: str
    false_304: int
    until_ts: float
    is_believed: bool


class ThrottleAnswer(AnswerModel):
    """What requests wait for, and hosts whose 304 is not believed."""

    waiting: list[WaitingGateAnswer]
    unreadable_robots: list[UnreadableRobotsAnswer]
    untrusted: list[UntrustedHostAnswer]
