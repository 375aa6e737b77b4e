"""The stored state of a source, and the trust in its dates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from core.sources.source_record import SourceRecord
from core.value_class import value_class

FORGIVEN = 5
"""This many wrong dates prove nothing yet."""


@value_class
class LastmodTrust:
    """How often a sitemap's moved `lastmod` came with a changed text, and how often not.

    Many sites write the day of the build, or the moment of the answer, next to every page. So a site is trusted until
    its dates moved several times while the text had not changed, and wins trust back by being right.
    """

    right: int = 0
    wrong: int = 0

    @property
    def is_trusted(self) -> bool:
        """Whether a moved date alone may cause a visit, and an unmoved one put it off."""
        return self.wrong < FORGIVEN or self.right >= self.wrong


@value_class
class SourceState:
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
