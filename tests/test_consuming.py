"""docs/consuming.md: every recipe works as it stands there, and the dashboard and alerts name metrics that exist."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from prometheus_client.parser import text_string_to_metric_families

from core.keys import Keys
from core.runtime.context import Context
from core.settings import ROOT, Settings
from core.store import connect
from core.store.connect import Client
from tests import articles, recipes
from tests.api import ApiServer, api_server
from tests.web import FakeWeb

PAGE = "consuming.md"
DASHBOARD = ROOT / "docs" / "grafana" / "freshet-dashboard.json"
ALERTS = ROOT / "docs" / "grafana" / "freshet-alerts.yml"
API = "localhost:8080"
PATIENCE_SECONDS = 60.0
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


@pytest.fixture
async def desk(settings: Settings, context: Context, web: FakeWeb, tmp_path: Path) -> AsyncIterator[ApiServer]:
    """An API on a store that has two articles of the sample's category; shells find its server in `data`."""
    for path in ("/a", "/b"):
        web.page(path, articles.article(f"Lock gates {path}", text=f"At the flood wall {path}."))
    await context.client.sadd(context.keys.categories, "sample_news")
    await articles.add(context, web.url("/a"), web.url("/b"), category="sample_news")
    await articles.run(context)
    (tmp_path / "data").mkdir()
    connect.write_url(tmp_path / "data", connect.url_of(settings))
    async with api_server(settings) as running:
        yield running


def environment(tmp_path: Path) -> dict[str, str]:
    data = str(tmp_path / "data")
    return {"PATH": os.environ["PATH"], "HOME": data, "PERSISTENT_STORAGE_PATH": data}


# ── recipes ──


async def test_consumer_group_by_hand(desk: ApiServer, tmp_path: Path) -> None:
    """The commands of redis-cli, one after the other: two events are read, pending, taken over, and the lag is told."""
    (block,) = recipes.blocks(PAGE, "Events")
    with recipes.answering(environment(tmp_path)) as shell:
        line = f"{recipes.ASK}set -e\n{block.replace(recipes.SCRIPT, 'ask')}"
        done = await asyncio.to_thread(recipes.run, line, shell)

    assert (done.returncode, done.stderr) == (0, "")
    assert "(error)" not in done.stdout
    assert done.stdout.startswith("OK\nfreshet:events\n")
    assert {"article.stored", "reader1", "pending", "lag"} <= set(done.stdout.split())


async def test_consumer_in_python(desk: ApiServer, redis: Client, keys: Keys, tmp_path: Path) -> None:
    """A reader that is killed gets again what it did not acknowledge; then what is new; others of the group do not."""
    (source,) = recipes.blocks(PAGE, "Events", "python")
    (tmp_path / "reader.py").write_text(source)
    await redis.xgroup_create(keys.events, "newsdesk", id="0")
    await redis.xreadgroup("newsdesk", "reader1", {keys.events: ">"})  # read everything, and died
    stored = [fields["url"] for _, fields in await redis.xrange(keys.events) if fields["type"] == "article.stored"]

    async with running(sys.executable, "reader.py", "reader1", folder=tmp_path) as reader:
        again = [await next_line(reader) for _ in stored]
        await redis.xadd(keys.events, {"type": "article.stored", "url": "https://e.org/new"})
        new = await next_line(reader)
        await none_pending(redis, keys)

    assert len(stored) == 2
    assert (again, new) == (stored, "https://e.org/new")


@contextlib.asynccontextmanager
async def running(*command: str, folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """A program that would never end by itself."""
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, stdout=asyncio.subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        await process.wait()


async def next_line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        return (await process.stdout.readline()).decode().strip()


async def none_pending(redis: Client, keys: Keys) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await redis.xpending(keys.events, "newsdesk"))["pending"]:  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.02)


@needs_curl
async def test_server_sent_events(desk: ApiServer, tmp_path: Path) -> None:
    """Those of the past, since the recipe asks for them, each with its id, type and fields."""
    (block,) = recipes.blocks(PAGE, "Server-sent events")
    line = f"exec {block.replace(API, desk.url.removeprefix('http://'))}"
    async with running("bash", "-c", line, folder=tmp_path) as client:
        lines = [await next_line(client) for _ in range(5)]

    assert [one.partition(":")[0] for one in lines] == ["retry", "", "id", "event", "data"]
    assert lines[3] == "event: article.stored"


@needs_curl
@pytest.mark.parametrize(
    ("heading", "told"),
    [
        ("Feeds", ["<rss ", "<feed ", "jsonfeed.org/version/1.1", "Etag:", "Last-Modified:", '{"token":""}']),
        ("Export", ['"kind": "article"', '"categories": ["sample_news"]']),
        ("Metrics", ['freshet_freshness_age_seconds{quantile="0.95"}']),
    ],
)
async def test_recipes_over_http(desk: ApiServer, tmp_path: Path, heading: str, told: list[str]) -> None:
    """Each line of bash answers what the page says it does."""
    lines = "\n".join(recipes.blocks(PAGE, heading)).replace(API, desk.url.removeprefix("http://"))
    done = await asyncio.to_thread(recipes.run, f"set -e\n{lines}", environment(tmp_path))

    assert done.returncode == 0, done.stderr
    assert '"error"' not in done.stdout
    for part in told:
        assert part in done.stdout, (part, done.stdout[:2000])


# ── the dashboard and the alerts ──


def expressions(part: Any) -> Iterator[str]:
    """Every PromQL expression in a dashboard or in rules."""
    if isinstance(part, dict):
        for name, value in part.items():
            if name in ("expr", "query") and isinstance(value, str):
                yield value
            yield from expressions(value)
    elif isinstance(part, list):
        for one in part:
            yield from expressions(one)


def metric_names(part: Any) -> set[str]:
    return {name for expression in expressions(part) for name in re.findall(r"\bfreshet_\w+", expression)}


async def emitted(api: ApiServer) -> set[str]:
    """The names of all metrics, as queries have to write them; some have no value in a small store."""
    families = list(text_string_to_metric_families((await api.get("/metrics")).text))
    return {f"{family.name}_total" if family.type == "counter" else family.name for family in families}


async def test_dashboard_and_alerts_name_metrics_that_exist(desk: ApiServer) -> None:
    """Every metric in them is one that /metrics emits, and those that were promised are there."""
    dashboard, alerts = json.loads(DASHBOARD.read_text()), yaml.safe_load(ALERTS.read_text())
    shown, watched = metric_names(dashboard), metric_names(alerts)
    there = await emitted(desk)
    labels = {"freshet_queue_items", "freshet_freshness_age_seconds", "freshet_source_last_success_timestamp_seconds"}

    assert sorted((shown | watched) - there) == []
    assert shown >= labels | {"freshet_fetches_total", "freshet_articles", "freshet_feed_polls_total"}
    assert len(watched) >= 10
    assert all(expression.count("(") == expression.count(")") for expression in expressions(dashboard))


def test_dashboard_can_be_imported() -> None:
    """Ids are unique, panels have a place and a title, and the data source is asked for."""
    dashboard = json.loads(DASHBOARD.read_text())
    panels = dashboard["panels"]

    assert len({panel["id"] for panel in panels}) == len(panels) > 15
    assert all(panel["title"] and panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)
    assert [variable["name"] for variable in dashboard["templating"]["list"]] == ["datasource", "instance"]
    assert {panel["datasource"]["uid"] for panel in panels if panel["type"] != "row"} == {"${datasource}"}


def test_alerts_say_what_to_do() -> None:
    """Every rule waits a while, has a severity, and says what happened and what to do."""
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]

    assert len(group["rules"]) > 5
    for rule in group["rules"]:
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert rule["annotations"]["description"].endswith(".")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_takes_the_alerts() -> None:
    """By Prometheus's own check."""
    done = subprocess.run(["promtool", "check", "rules", str(ALERTS)], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr + done.stdout
