"""The route table: every route of the API, module by module. A new module is one line here."""

from __future__ import annotations

from importlib import import_module

from workers.web.routing import Routes

MODULES = (
    "health",
    "articles",
    "failures",
    "items",
    "versions",
    "documents",
    "feeds",
    "feed_preview",
    "categories",
    "pace",
    "throttle",
    "search",
    "feeds_out",
    "jobs",
    "domains",
    "domain_control",
    "crawler",
    "reports",
    "maintenance",
    "settings",
    "stream",
    "webhooks",
    "webhook_delivery",
    "about",
)
"""In the order in which their routes are tried and shown."""
ROUTES: Routes = tuple(route for name in MODULES for route in import_module(f"{__name__}.{name}").ROUTES)
