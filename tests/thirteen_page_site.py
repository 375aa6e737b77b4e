"""What tests of runs share: a site of thirteen pages that nobody has crawled yet."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from core.runtime.context import Context
from core.settings import Settings
from tests.crawled_site import add_site, crawl_context
from tests.site import Site

PATHS = ["/", *(f"/{n}" for n in range(12))]


@pytest.fixture
async def crawled(settings: Settings, site: Site) -> AsyncIterator[Context]:
    """A context with a site of thirteen pages that nobody has crawled yet; three pages are picked at a time."""
    site.page("/", links=PATHS[1:])
    for path in PATHS[1:]:
        site.page(path)
    async with crawl_context(settings, refresh_batch_items=3) as context:
        await add_site(context, site.url())
        yield context
