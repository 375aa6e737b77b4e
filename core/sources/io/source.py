"""The base of all sources: list what is there, fetch one item of it.

A source is one file with its configuration model and its class, and one line in `core.sources.io.source_kinds`.
Nothing else in the tree branches on the kind of a source: what callers need to know is an attribute here.

The answer of a fetch looks like HTTP for every kind: 200 with a body and validators, 304, 404 for what is
not there, 403 for what we may not read. So one `decide` serves web sites, folders and repositories alike.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from core.models import Fetched, FetchResult, ListingBatch, ListingEnd, Ref
from core.registry.record import Item
from core.settings import Settings
from core.sources.source_record import SourceState
from core.urls.scope import Judgement, Scope

if TYPE_CHECKING:
    from core.net.fetcher import BodySlot
    from core.runtime.context import Context
    from core.sources.domain_schema import SourceConfig  # brings Pydantic, which a run over feeds does without
    from core.sources.io.dry_run_report import DryRunReport
    from core.sources.sharepoint.io.step_context import Step

MOST_ITEMS = 10_000_000
UNCHANGED = "unchanged"
"""Why a listing ended at once: nothing has changed since the last one."""
LINKS_DECIDE = "links decide"
"""Why a listing is never complete: it only adds to what links lead to."""
CUT_SHORT = "the listing was cut short"
COMPLETE = "complete"


def describe_end(end: ListingEnd | None) -> str:
    """Return how a listing ended, for people."""
    if end is None:
        return CUT_SHORT
    return COMPLETE if end.is_complete else end.reason


class _LateModel:
    def __init__(self, place: str) -> None:
        self._module, _, self._name = place.partition(" ")

    def __get__(self, source: object, kind: object) -> Any:
        return getattr(importlib.import_module(self._module), self._name)


def late_model(place: str) -> Any:
    """Return a `config_model` that is imported when someone asks for it: `module class`.

    Models take pydantic: 50 ms at the start of every process that visits pages, which reads no configuration.
    """
    return _LateModel(place)


class Source(ABC):
    """A named place with items in it; a subclass overrides what is different for its kind."""

    state: SourceState
    """What is stored of it; set when it is opened by its id (`OpenSources`)."""

    config_model: ClassVar[type[SourceConfig] | None] = None
    """What a person may write of it; None: it is built in. See `late_model`."""
    is_built_in: ClassVar[bool] = False
    """Whether its items are feeds' articles or single URLs, which have no configuration and no listing."""
    follows_links: ClassVar[bool] = False
    """Whether its pages are found by links; then a page without links to it is gone."""
    is_listing_evidence: ClassVar[bool] = False
    """Whether a complete listing proves what is there and what is gone."""
    needs_no_requests: ClassVar[bool] = False
    """Whether a visit costs no request."""
    needs_signature: ClassVar[bool] = False
    """Whether its record counts only if the person's own command signed it."""
    interval_setting: ClassVar[str] = "crawl_base_interval_seconds"
    """The setting that says how often it is listed."""
    has_steps: ClassVar[bool] = False
    """Whether it keeps copies and a vector store of its own; a run may then do one step: `prepare` or `publish`."""
    news: str = ""
    """What it has learnt about itself at visits since it was opened, for people."""

    @property
    def sid(self) -> str:
        """The id under which it was opened."""
        return self.state.record.sid

    @property
    def most_items(self) -> int:
        """How many items it may have."""
        return int(self.state.record.config.get("max_pages", MOST_ITEMS))

    @property
    def scope(self) -> Scope | None:
        """Which links are followed; None where none are."""
        return None

    @property
    def notes(self) -> Mapping[str, str]:
        """What it has learnt about itself at visits; kept for it, and given back when it is opened."""
        return {}

    @classmethod
    @abstractmethod
    def open(cls, state: SourceState, context: Context, now: float) -> Self:
        """Open a stored source at this time; raise ValueError, a sentence, if its configuration cannot be used."""

    @classmethod
    def listing_interval_seconds(cls, config: Mapping[str, Any], settings: Settings) -> float:
        """How often a source with this configuration is listed: as that says, else as the settings do."""
        return float(config.get("interval_seconds") or getattr(settings, cls.interval_setting))

    def interval_seconds(self, settings: Settings) -> float:
        """How often it is listed: as its configuration says, else as the settings do."""
        return self.listing_interval_seconds(self.state.record.config, settings)

    @property
    def recheck_seconds(self) -> float | None:
        """How soon its items are checked again, if it says so; where a listing is evidence, that finds changes."""
        return None if self.is_listing_evidence else self.state.record.config.get("interval_seconds")

    @classmethod
    def root(cls, config: Mapping[str, Any]) -> Ref | None:
        """Return the item from which all others are found, where there is one."""
        return None

    @classmethod
    def judge(cls, state: SourceState, settings: Settings, address: str, depth: int, now: float) -> Judgement | None:
        """Return whether a stored source would take an address, without opening it; None: it is of another place."""
        return None

    def exclusion_reason(self, address: str) -> str:
        """Return why the configuration leaves out something that the source may have had; empty if it does not."""
        return ""

    async def prepare(self, step: Step) -> str:
        """Bring the copies up to date that are listed then; return why that cannot be, a sentence, or nothing.

        What is returned ends the pass: nothing is listed and nothing removed. Does only the steps that are named.
        """
        return ""

    async def planned_changes(self, mode: str) -> DryRunReport | None:
        """Tell what `prepare` would change, and change nothing; None where the listing alone tells it."""
        return None

    async def has_copy(self, item: Item) -> bool:
        """Return whether it keeps a copy of its own of an item, which is read before what its address leads to."""
        return False

    async def publish(self, step: Step) -> str:
        """Bring other stores up to date, behind the visits; return why that cannot be, a sentence, or nothing."""
        return ""

    @abstractmethod
    def list(self, memory: Mapping[str, str]) -> AsyncIterator[ListingBatch | ListingEnd]:
        """List everything the source has, in bounded batches, a `ListingEnd` last.

        `memory` is what the last listing's end gave. A source that can tell that nothing changed since ends at once
        with `ListingEnd(is_complete=False, reason="unchanged", memory=…)`. Expected trouble is an end that is not
        complete, never an exception.
        """

    @abstractmethod
    async def fetch(self, item: Item, conditional: Mapping[str, str], slot: BodySlot | None = None) -> FetchResult:
        """Fetch one item. `conditional` holds If-None-Match and If-Modified-Since as they came, or nothing."""

    def land(self, item: Item, answer: Fetched, links: Sequence[str]) -> str:
        """Follow the root of the source where it has moved: a page with these links was read behind redirects.

        Returns why what was read is not what the item was, where the redirect is only temporary; mostly nothing.
        """
        return ""

    async def hash_of(self, item: Item) -> str | None:
        """Hash something too large to be read at once (sha256); None where the source cannot do that."""
        return None
