"""The pages that every page links to. A new page is one line here."""

from __future__ import annotations

from core.value_class import value_class


@value_class
class NavigationLink:
    """A page in the menu."""

    path: str
    label: str
    key: str = ""
    """After `g`, this key opens it."""

    def is_current(self, path: str) -> bool:
        """Return whether a page is this one, or below it."""
        return path == self.path or (self.path != "/" and path.startswith(f"{self.path}/"))


NAVIGATION = (
    NavigationLink("/", "Overview", "o"),
    NavigationLink("/articles", "Articles", "a"),
    NavigationLink("/feeds", "Feeds", "f"),
    NavigationLink("/domains", "Domains", "d"),
    NavigationLink("/runs", "Runs", "r"),
    NavigationLink("/why", "Why?", "w"),
    NavigationLink("/failures", "Failures", "x"),
    NavigationLink("/webhooks", "Webhooks", "h"),
    NavigationLink("/throttle", "Throttle", "t"),
    NavigationLink("/doctor", "Doctor", "c"),
    NavigationLink("/settings", "Settings", "s"),
)
