"""The parameters of a crawl beside its mode: which steps, which sources, how many retries.

These are the parameters of its run, so a continued run does the same. What is not given has its default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Self

from core.sources.sharepoint.source_types import SharePointType
from core.sources.source_record import SOURCES_SUFFIX, SourceRecord
from core.value_class import value_class


class StepName(StrEnum):
    """The steps of a crawl, in order; a run may do all of them or one."""

    DOWNLOAD = "download"
    """Bring what has changed to this disk."""
    PROCESS = "process"
    """Make files to embed of what was downloaded."""
    EMBED = "embed"
    """Register and read the files, and bring the vector store up to date."""


ALL_STEPS = tuple(StepName)
STEPS = "steps"
"""The parameter of a run that names its steps, with commas between them; without it, all."""


ALL = "all"
SCOPES: Mapping[str, str] = {one.scope: str(one) for one in SharePointType}
"""The type of source that each scope means: `files` is `file_sources`."""
RETRY_BATCHES = 2
MOST_RETRY_BATCHES = 10
_BATCHES = "retry_batches"


@value_class
class CrawlParameters:
    steps: frozenset[StepName] = frozenset(ALL_STEPS)
    scope: str = ALL
    """`files`, `lists` or `sitepages`: only such sources."""
    source_id: str = ""
    """Limits the crawl to this source, by its own name."""
    source_type: str = ""
    """Limits the crawl to sources of this type, as `file_sources`; several with commas, if a run took over another."""
    retry_batches: int = RETRY_BATCHES
    """How often what failed is tried, the first time included."""

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> Self:
        """Return what the parameters of a run say; what cannot be read is as it always is."""
        batches = str(parameters.get(_BATCHES, ""))
        scope = str(parameters.get("scope", ALL))
        named = {word.strip() for word in str(parameters.get(STEPS, "")).split(",")}
        return cls(
            steps=frozenset(name for name in ALL_STEPS if name in named) or frozenset(ALL_STEPS),
            scope=scope if scope in SCOPES else ALL,
            source_id=str(parameters.get("source_id", "")),
            source_type=str(parameters.get("source_type", "")),
            retry_batches=max(int(batches), 1) if batches.isdecimal() else RETRY_BATCHES,
        )

    def to_run(self) -> dict[str, str]:
        """Return the parameters of a run: only what is not as always."""
        plain = CrawlParameters().told()
        return {name: value for name, value in self.told().items() if value != plain[name]}

    def told(self) -> dict[str, str]:
        """Return all of them, for people."""
        return {
            STEPS: ",".join(step for step in ALL_STEPS if step in self.steps),
            "scope": self.scope,
            "source_id": self.source_id,
            "source_type": self.source_type,
            _BATCHES: str(self.retry_batches),
        }

    @property
    def is_whole_crawl(self) -> bool:
        return self.steps == frozenset(ALL_STEPS)

    @property
    def source_types(self) -> frozenset[str] | None:
        """The types of sources that are meant; None: all. Two that contradict each other mean none."""
        by_type, by_scope = (
            frozenset(self.source_type.split(",")) - {""},
            frozenset({SCOPES.get(self.scope, "")}) - {""},
        )
        if by_type and by_scope:
            return by_type & by_scope
        return by_type or by_scope or None

    @property
    def shown_scope(self) -> str:
        by_type = {source_type: scope for scope, source_type in SCOPES.items()}
        return by_type.get(",".join(self.source_types or ()), ALL)

    def of_source(self) -> Self:
        """Return what of it concerns each single source."""
        return replace(self, scope=ALL, source_id="", source_type="")

    def takes(self, record: SourceRecord) -> bool:
        is_named = self.source_id in ("", record.sid, record.sid.removeprefix(f"{record.domain}."))
        types = self.source_types
        return is_named and (types is None or f"{record.kind}{SOURCES_SUFFIX}" in types)

    def covers(self, other: CrawlParameters) -> bool:
        """Return whether a run with these does all that another asks for."""
        types, others = self.source_types, other.source_types
        is_every_type = types is None or (others is not None and types >= others)
        return self.steps >= other.steps and is_every_type and self.source_id in ("", other.source_id)

    def joined(self, before: CrawlParameters) -> Self:
        """Return what is asked now and was asked of a run that it takes the place of: nothing asked for is lost.

        That may be more than both, as every step is taken for every source of either.
        """
        types, others = self.source_types, before.source_types
        is_one_source = self.source_id == before.source_id
        all_types = sorted(types | others) if is_one_source and types is not None and others is not None else ()
        return replace(
            self,
            steps=self.steps | before.steps,
            scope=ALL,
            source_id=self.source_id if is_one_source else "",
            source_type=",".join(all_types),
            retry_batches=max(self.retry_batches, before.retry_batches),
        )
