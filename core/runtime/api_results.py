"""What `core.api` returns, in the same shape on the store itself and over HTTP; the API answers with some of it.

Articles, texts, reindexing and added URLs have types in their rooms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated

from pydantic import Field, JsonValue

from core.registry.why_verdict import NearMiss, Outcome, StationName, StationState
from core.runs.run import RunKind, RunPhase, RunStatus
from core.search.models import MatchedPassage
from core.value_class import value_class


@value_class
class FoundPage:
    """A page that a search has found."""

    id: str
    url: str
    title: str
    score: float
    type: str
    """`url` or `file`."""
    host: str
    language: str
    categories: tuple[str, ...]
    domains: tuple[str, ...]
    author: str
    image: str
    published_ts: float
    """0: not known, as with the other times."""
    updated_ts: float
    verified_by: str
    """How its text was last proved to be current: `read`, `hash`, `304`, `listing` or `feed`; empty: never."""
    verified_ts: float
    checked_ts: float
    passages: tuple[MatchedPassage, ...]
    """Best first."""
    duplicates: tuple[str, ...]
    """Other pages with the same text."""
    aliases: tuple[str, ...]
    """Other URLs of this page."""
    images: tuple[Mapping[str, str], ...]


@value_class
class FoundPages:
    """One page of results."""

    results: tuple[FoundPage, ...]
    total: int
    """How many results there are on all pages."""
    more: bool
    """Further results exist, too far down to be ranked."""
    by: str
    """`words and meaning`, or `words` with the reason."""
    pending: int
    """Texts that wait for their vectors, and are found by words alone until they have them."""
    notes: tuple[str, ...]
    """Names in the filters that nothing has."""


@value_class
class ExplainedStation:
    """One station of the pipeline, and what happened there."""

    name: StationName
    state: StationState
    sentence: str
    facts: Mapping[str, JsonValue]
    advice: str


@value_class
class ExplainedUrl:
    """Why a URL is there, or not."""

    name: str
    outcome: Outcome
    verdict: str
    """One sentence."""
    advice: str
    stopped_at: StationName | None
    url: str
    uid: str
    item_id: str
    stations: tuple[ExplainedStation, ...]
    nearby: tuple[NearMiss, ...]
    asked_at: str = field(compare=False)


@value_class
class CategoryCounts:
    """How much a category has."""

    feeds: int
    links: int
    articles: int


@value_class
class FeedCounts:
    """How many feeds there are, and how they are doing."""

    total: int
    by_status: Mapping[str, int]
    due: int
    next_due_ts: float | None


@value_class
class StoreStatus:
    """How much there is, and what waits."""

    now_ts: float
    categories: Mapping[str, CategoryCounts]
    feeds: FeedCounts
    items: Mapping[str, int]
    """Of the registry, by status."""
    due: Mapping[str, int]
    """Items that are due, by source."""
    queues: Mapping[str, int | None]
    """Jobs that wait, by queue; None: its server does not answer."""
    failures: Mapping[str, int]
    """Links that gave no article, by failure code."""
    waiting_for_vectors: int


@value_class
class RunState:
    """A run: one pass over a source, a domain or something else. A time that has not come yet is null."""

    id: Annotated[str, Field(examples=["jb_1763337600_0a1b2c3d"])]
    kind: RunKind
    status: RunStatus
    domain: str
    source: str
    mode: str
    parent: str
    """The run of the domain that this crawl of a source is a part of."""
    parameters: Mapping[str, str]
    started_by: str
    phase: RunPhase
    progress: Annotated[int, Field(ge=0, le=100)]
    """Percent."""
    message: str
    error: str
    problem: str
    """Why it is only partial: held, incomplete, unpublished; empty if only items failed."""
    created_at: str | None
    """ISO 8601, as all times."""
    started_at: str | None
    ended_at: str | None
    heartbeat_at: str | None
    in_flight: int
    """Items that workers have in hand; while it is pausing, what it waits for."""
    left: int
    """Items that were still due at its end."""
    counts: Mapping[str, int]
    metrics: Mapping[str, float]
    """What its workers measured."""
    statistics: Mapping[str, JsonValue]
    """What the steps did to a SharePoint source; else empty."""
    receipt: str
    """Digest over item ids and content hashes; equal results have equal receipts."""
