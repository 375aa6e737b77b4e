"""The pages, module by module. A new module is one line here."""

from __future__ import annotations

from importlib import import_module

from workers.web.routing import Routes

MODULES = (
    "overview",
    "articles",
    "article",
    "feeds",
    "feed_add",
    "feed",
    "domains",
    "domain",
    "dry_run",
    "report",
    "runs",
    "run",
    "failures",
    "why",
    "webhooks",
    "webhook_add",
    "webhook",
    "throttle",
    "doctor",
    "settings",
    "live",
    "login",
)
"""In the order in which their routes are tried and shown."""
PAGES: Routes = tuple(route for name in MODULES for route in import_module(f"{__name__}.{name}").ROUTES)
