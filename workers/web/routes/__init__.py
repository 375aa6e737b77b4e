"""The route table: every route of the API, module by module. A new module is one line here."""

from __future__ import annotations

from workers.web.routes import (
    about,
    articles,
    categories,
    category_changes,
    crawler,
    documents,
    domain_control,
    domains,
    failures,
    feed_control,
    feed_preview,
    feeds,
    feeds_out,
    health,
    items,
    job_control,
    jobs,
    maintenance,
    pace,
    search,
    stream,
    versions,
    webhook_delivery,
    webhooks,
)
from workers.web.routing import Routes

MODULES = (
    health,
    articles,
    failures,
    items,
    versions,
    documents,
    feeds,
    feed_control,
    feed_preview,
    categories,
    category_changes,
    pace,
    search,
    feeds_out,
    jobs,
    job_control,
    domains,
    domain_control,
    crawler,
    maintenance,
    stream,
    webhooks,
    webhook_delivery,
    about,
)
ROUTES: Routes = tuple(route for module in MODULES for route in module.ROUTES)
