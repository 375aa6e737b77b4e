"""Read when and how the text of an item was last verified to be current.

A visit that fails proves nothing: `lastChecked` moves, `verifiedTs` stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from core.registry import field_parsing
from core.value_class import value_class


class VerifiedBy(StrEnum):
    """What proved that the stored text is the current one."""

    READ = "read"
    """The page or file was read, and this is its text."""
    HASH = "hash"
    """It was read again, and its hash was the same."""
    NOT_MODIFIED = "304"
    """Its server said that nothing has changed, or its file had the same date and size."""
    LISTING = "listing"
    """The listing of its source named the version that was read last."""
    FEED = "feed"
    """The text is the feed's own, because the page keeps it from us."""


FIELDS = ("verifiedTs", "verifiedBy", "checkedTs", "changedTs")
"""The fields of a record that `parse` reads."""


@value_class
class Verification:
    """The last proof of a text."""

    verified_ts: float = 0.0
    """0: never."""
    verified_by: str = ""
    """One of `VerifiedBy`; empty: never."""
    checked_ts: float = 0.0
    """The last visit, whether it proved something or failed."""


NEVER_VERIFIED = Verification()


def parse(record: Mapping[str, str | None]) -> Verification:
    """Return the last proof of a record's text. Records of older versions say only when a text was read."""
    times = {name: field_parsing.timestamp(record.get(name)) for name in ("verifiedTs", "checkedTs", "changedTs")}
    if times["verifiedTs"]:
        return Verification(times["verifiedTs"], field_parsing.text(record.get("verifiedBy")), times["checkedTs"])
    by = str(VerifiedBy.READ) if times["changedTs"] else ""
    return Verification(times["changedTs"], by, times["checkedTs"])
