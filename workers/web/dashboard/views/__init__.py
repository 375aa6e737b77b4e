"""The pages, module by module. A new module is one line here."""

from __future__ import annotations

from workers.web.dashboard.views import (
    article,
    article_actions,
    articles,
    doctor,
    domain,
    domain_actions,
    domains,
    dry_run,
    failures,
    feed,
    feed_actions,
    feed_add,
    feeds,
    live,
    login,
    overview,
    run,
    runs,
    settings,
    throttle,
    why,
)
from workers.web.routing import Routes

MODULES = (
    overview,
    articles,
    article,
    article_actions,
    feeds,
    feed_add,
    feed,
    feed_actions,
    domains,
    domain,
    domain_actions,
    dry_run,
    runs,
    run,
    failures,
    why,
    throttle,
    doctor,
    settings,
    live,
    login,
)
PAGES: Routes = tuple(route for module in MODULES for route in module.ROUTES)
