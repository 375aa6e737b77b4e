"""How much the `lastmod` of a sitemap is worth.

Many sites write the day of the build, or the moment of the answer, next to every page. So a site is trusted until
its dates moved several times while the text had not changed, and wins trust back by being right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.registry.record import iso

FORGIVEN = 5
"""So many wrong dates prove nothing yet."""
NOW_SECONDS = 60.0
FUTURE_SECONDS = 14 * 3_600.0
"""A date without a time may be that far ahead and still be today's: UTC+14."""


@dataclass(frozen=True, slots=True)
class LastmodTrust:
    """How often a moved date came with a changed text, and how often not."""

    right: int = 0
    wrong: int = 0

    @property
    def is_trusted(self) -> bool:
        """May a moved date alone cause a visit, and an unmoved one put it off?"""
        return self.wrong < FORGIVEN or self.right >= self.wrong


def versions(lastmods: Sequence[float | None], fetched_ts: float) -> tuple[str, ...]:
    """Return what `Ref.version` says of each page of one sitemap, in order; empty for a date that is worth nothing.

    A future date is worth nothing. Where all dates are the moment of the fetch, none is worth anything.
    """
    latest = fetched_ts + FUTURE_SECONDS
    if all(lastmod is None or abs(lastmod - fetched_ts) <= NOW_SECONDS for lastmod in lastmods):
        return ("",) * len(lastmods)
    return tuple("" if lastmod is None or lastmod > latest else iso(lastmod) for lastmod in lastmods)
