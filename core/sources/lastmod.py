"""How much the `lastmod` of a sitemap is worth.

Many sites write the day of the build, or the moment of the answer, next to every page. So a site is trusted until
its dates moved several times while the text had not changed, and wins trust back by being right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.feeds.dates import parse_date
from core.registry.record import iso

FORGIVEN = 5
"""So many wrong dates are no judgement yet."""
REMEMBERED = 40
"""Beyond so many observations the older ones fade: a site that mends its ways is believed again, and the reverse."""
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

    def learn(self, text_changed: bool) -> LastmodTrust:
        """The grade after a visit whose date had moved since the last one."""
        right, wrong = self.right + text_changed, self.wrong + (not text_changed)
        return LastmodTrust(right // 2, wrong // 2) if right + wrong > REMEMBERED else LastmodTrust(right, wrong)


def lastmod_version(lastmod: float | str | None) -> str:
    """What `Ref.version` says of this date: the same for all spellings of one moment; empty for none."""
    moment = parse_date(lastmod) if isinstance(lastmod, str) else lastmod
    return "" if moment is None else iso(moment)


def versions(lastmods: Sequence[float | None], fetched_ts: float) -> tuple[str, ...]:
    """The versions of one sitemap's pages, in order.

    A date to come is worth nothing. Where all dates are the moment of the fetch, none is worth anything.
    """
    dated = [moment for moment in lastmods if moment is not None]
    if all(abs(moment - fetched_ts) <= NOW_SECONDS for moment in dated):
        return ("",) * len(lastmods)
    return tuple(_version(moment, fetched_ts) for moment in lastmods)


def _version(moment: float | None, fetched_ts: float) -> str:
    return "" if moment is None or moment > fetched_ts + FUTURE_SECONDS else lastmod_version(moment)
