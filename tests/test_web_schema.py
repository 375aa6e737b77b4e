"""Whatever a client sends, the API answers as its OpenAPI document says, and never with a 5xx."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from core.keys import Keys
from core.runs.io.run_store import RunStore
from core.runs.run import RunKind
from core.secret_text import SecretStr
from core.settings import Settings
from core.sources.io.domain_file import parse_domain
from core.sources.io.domain_setup import add_domain
from core.store import connect
from tests.api import ApiServer, api_server
from tests.search_site import open_library
from workers.web.routes import ROUTES
from workers.web.routing import EVENT_STREAM

pytestmark = pytest.mark.long

TOKEN = "a-token-of-some-length"
PAGES = {"/weir": "The weir was repaired.", "/lock": "The lock is closed."}
Known = dict[str, dict[str, Any]]
"""By the beginning of a path: parameters that name something."""
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
LEFT_OUT = {"positive_data_acceptance"}
"""A page beyond the last, or a date that is none, is refused with a sentence whatever the schema can say."""


@pytest.fixture
async def filled(settings: Settings, tmp_path: Path) -> AsyncIterator[tuple[ApiServer, Known]]:
    """An API with a token on a store that has two pages, a folder, a feed and a run; and parameters that name them."""
    async with open_library(settings, PAGES) as library:
        await library.embed()
        client = library.context.client
        (tmp_path / "notes").mkdir()
        (tmp_path / "notes" / "one.md").write_text("# One\n\nA note.\n")
        shelf = parse_domain('{"id": "shelf", "folder_sources": [{"id": "notes", "path": "notes"}]}', str(tmp_path))
        await add_domain(settings, client, Keys(), shelf)
        now = await connect.now(client)
        run, _ = await RunStore(client, Keys()).open(RunKind.CRAWL, now, source="shelf.notes", domain="shelf")
        await library.context.subscriptions.add("world", "http://127.0.0.1:9/feed")
        known = {
            "/v2/jobs/{": {"path_parameters": {"id": run.id}},
            "/v2/domains/{": {"path_parameters": {"id": "shelf"}},
            "/v2/crawler/": {"query": {"domain_id": "shelf", "dry_run": "true"}},
            "/api/items/{": {"path_parameters": {"id": library.id("/weir")}},
            "/api/categories/{": {"path_parameters": {"name": "world"}},
            "/feeds/{": {"path_parameters": {"category": "world", "format": "atom"}},
        }
        options = {"api_token": SecretStr(TOKEN), "api_requests_per_minute": 0}
        async with api_server(library.settings.model_copy(update=options)) as api:
            yield api, known


async def test_every_route_keeps_to_the_document(filled: tuple[ApiServer, Known], full: bool) -> None:
    """Valid and invalid requests of every kind, made from the document, are answered as it says."""
    api, known = filled
    tried = await asyncio.to_thread(_try_everything, api.url, 100 if full else 1, known)

    assert tried >= len([route for route in ROUTES if EVENT_STREAM not in route.other_types])


def _try_everything(url: str, count: int, known: Known) -> int:
    """Send so many requests of each mode to each operation; some of the valid ones name something that is there."""
    import schemathesis

    schema = schemathesis.openapi.from_url(f"{url}/openapi.json", headers=HEADERS)
    valid, invalid = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE
    tried = 0
    for found in schema.exclude(path_regex="stream$").get_all_operations():
        operation = found.ok()
        there = next((names for start, names in known.items() if operation.path.startswith(start)), None)
        # The first valid one that is made is the smallest possible.
        strategies = [(operation.as_strategy(valid), count + 1), (operation.as_strategy(invalid), count)]
        if there:
            strategies.append((operation.as_strategy(valid, **there), count))
        for strategy, most in strategies:
            with contextlib.suppress(hypothesis.errors.Unsatisfiable):  # without parameters nothing can be wrong
                _try_many(strategy, most)
                tried += 1
    return tried


def _try_many(strategy: hypothesis.strategies.SearchStrategy[Any], count: int) -> None:
    from schemathesis.checks import CHECKS

    left_out = [check for check in CHECKS.get_all() if check.__name__ in LEFT_OUT]

    @hypothesis.settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=strategy)
    def try_one(case: Any) -> None:
        if (case.query or {}).get("format") == "stream":
            case.query["format"] = "html"  # a stream lasts until its run ends, and nobody works here
        case.call_and_validate(headers=HEADERS, excluded_checks=left_out, timeout=30)

    try_one()
