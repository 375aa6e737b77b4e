"""The sitemap task alone. Registered as `tests.sitemap_tasks:TASKS`."""

from __future__ import annotations

from core.parsing.tasks import Task
from core.sitemaps import SitemapResult, SitemapTask, read_sitemap

TASKS = {"sitemap": Task(SitemapTask, read_sitemap, SitemapResult)}
