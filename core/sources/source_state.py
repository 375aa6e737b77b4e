"""A source as it is stored, how much its dates are worth, and how much it may lose within a day."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.sources.domain_schema import SourceRecord

FORGIVEN = 5
"""So many wrong dates prove nothing yet."""


@dataclass(frozen=True, slots=True)
class LastmodTrust:
    """How often a sitemap's moved `lastmod` came with a changed text, and how often not.

    Many sites write the day of the build, or the moment of the answer, next to every page. So a site is trusted until
    its dates moved several times while the text had not changed, and wins trust back by being right.
    """

    right: int = 0
    wrong: int = 0

    @property
    def is_trusted(self) -> bool:
        """May a moved date alone cause a visit, and an unmoved one put it off?"""
        return self.wrong < FORGIVEN or self.right >= self.wrong


@dataclass(frozen=True, slots=True)
class SourceState:
    """A source as it is stored."""

    record: SourceRecord
    memory: Mapping[str, str] = field(default_factory=dict)
    is_dirty: bool = True
    """Have links changed since it was last looked which pages are still linked?"""
    lastmod_trust: LastmodTrust = field(default_factory=LastmodTrust)
    root_id: str = ""
    loss_allowed_until: float = 0.0
    listed_ts: float = 0.0
    """When its last pass came to its end."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """What it has learnt about itself at visits."""


@dataclass(frozen=True, slots=True)
class LossLimit:
    """How much a source may lose within a day without a person's consent (docs/architecture.md#deletion)."""

    items: int = 20
    percent: float = 20.0

    def refusal(self, losing: int, lost: int, left: int) -> str:
        """Return why so many more may not be removed, or nothing. `left` are the items the source has now."""
        total = left + lost
        limit = max(self.items, int(total * self.percent / 100))
        gone = lost + losing
        if gone <= limit and gone < total:
            return ""
        so_far = f"; {lost} of them are out of search already, {losing} held back" if lost else ""
        return f"{gone} of {total} items would be gone within a day (the limit is {limit}){so_far}"
