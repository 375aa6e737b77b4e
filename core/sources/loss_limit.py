"""Limit how many items a source may lose within a day; `LossGuard` applies it to removals."""

from __future__ import annotations

from core.settings import Settings
from core.value_class import value_class


@value_class
class LossLimit:
    """How much a source may lose within a day without a person's consent (docs/architecture.md#deletion).

    Both numbers are settings (`LOSS_LIMIT_ITEMS`, `LOSS_LIMIT_PERCENT` in `core/settings.py`).
    """

    items: int
    percent: float

    @classmethod
    def of(cls, settings: Settings) -> LossLimit:
        return cls(settings.loss_limit_items, settings.loss_limit_percent)

    def refusal(self, losing: int, lost: int, left: int) -> str:
        """Return why so many more may not be removed, or nothing. `left` are the items the source has now."""
        total = left + lost
        limit = max(self.items, int(total * self.percent / 100))
        gone = lost + losing
        if gone <= limit and gone < total:
            return ""
        so_far = f"; {lost} of them are out of search already, {losing} held back" if lost else ""
        return f"{gone} of {total} items would be gone within a day (the limit is {limit}){so_far}"
