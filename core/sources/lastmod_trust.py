"""Whether the dates of a sitemap (`lastmod`) are believed."""

from __future__ import annotations

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
