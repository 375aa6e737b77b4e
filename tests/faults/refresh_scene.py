"""A site, a folder and an article in the middle of their life, with everything a refresh can meet.

Between the first pass and the one under test the site's menu changed: a page is new and leads to another, one moved for
good, one answers 404, one 410, one is linked no more, one has another text and other pictures. In the folder a file was
edited, one removed, one renamed, one added. The article was corrected. Every page answers the same however often it is
asked, so that a refresh that was broken off and made again must end where an undisturbed one does.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import redis.asyncio as redis

from core import ids
from core.keys import Keys
from core.models import Ref
from core.registry.io.batch_visitor import Visitor
from core.registry.io.due import HOLD_SECONDS, DueItems
from core.registry.io.registrar import Listing, item_id_of
from core.registry.record import ARTICLES_SOURCE
from core.runs.run import COUNTERS
from core.runtime.context import Context, open_context
from core.runtime.job_queues import JobQueues
from core.secret_text import SecretStr
from core.settings import Settings, load
from core.sources.io.crawl import CrawlMode, crawl_source
from core.sources.io.domain_file import parse_domain
from core.sources.io.open_sources import OpenSources
from core.store import connect
from core.store.clock import ServerClock
from core.urls.normalise import normalise_url
from tests.faults import state
from tests.site import Site
from tests.web import FakeWeb
from tests.web_replies import Exchange, Reply
from workers import canonical_fetcher
from workers.timer import Timer

WEB, FOLDER = "docs.site", "docs.files"
OF_RUNS = (
    *("run", "run_log", "run_failed", "run_workers", "runs", "runs_of_kind", "runs_open", "kb_state"),
    *("refresh_stats", "events", "prune_cursors"),
)
"""A run that was broken off stays as it was, and the next one counts for itself. Events are compared on their own.
The cursor of the timer's purging is no business of a refresh."""
FILE_TS = 1_700_000_000
LOOKED_AGAIN = {"crawlAttempts", "unchangedStreak", "conditionalStreak", "crawlIntervalSeconds", "httpStatusCode"} | {
    *("missingChecks", "errorMessage", "reindexGeneration", "processedGeneration", "forcedBy")
}
"""Fields that tell how often it was looked, and what a second look was answered (304 instead of 200)."""
SETTINGS: dict[str, Any] = {
    "fetch_allowed_hosts": ("127.0.0.0/8",),
    "fetch_host_parallel": 1,
    "loss_limit_percent": 100.0,
}
ENVIRONMENT = {"FETCH_ALLOWED_HOSTS": "127.0.0.0/8", "FETCH_HOST_PARALLEL": "1", "LOSS_LIMIT_PERCENT": "100"}
"""The same for processes."""


class Gate:
    """A page at which the first who asks stands still until told; all others get through."""

    def __init__(self, first: Reply, others: Reply | None = None) -> None:
        self._first, self._others = first, others or first
        self._opened = asyncio.Event()
        self.is_reached = False

    async def __call__(self, exchange: Exchange) -> None:
        if self.is_reached:
            await self._others(exchange)
            return
        self.is_reached = True
        await self._opened.wait()
        await self._first(exchange)

    def open(self) -> None:
        """Let the first one through."""
        self._opened.set()


@dataclass
class Scene:
    """The web, the folder, the settings to reach them, and the store as it was before the run under test."""

    site: Site
    folder: Path
    settings: Settings
    client: connect.Client
    """The test's own way to the server, past any fault."""
    raw: redis.Redis
    keys: Keys = field(default_factory=Keys)
    before: state.Saved = field(default_factory=dict)
    fault_free: state.Dump = field(default_factory=dict)
    told: Counter[str] = field(default_factory=Counter)
    """Events of items in the fault-free run."""

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: Settings, **more: Any) -> AsyncIterator[Scene]:
        """A furnished scene and its fault-free end."""
        settings = settings.model_copy(update=SETTINGS | more)
        async with AsyncExitStack() as stack:
            site = Site(await stack.enter_async_context(FakeWeb()))
            client = await stack.enter_async_context(connect.open_store(settings))
            raw = await stack.enter_async_context(redis.Redis.from_url(connect.url_of(settings)))
            scene = cls(site, settings.persistent_storage_path / "files", settings, client, raw)
            await client.flushall()
            await scene._live_before()
            await scene._change()
            scene.before = await state.save(raw)
            await scene.run()
            scene.fault_free, scene.told = await scene.dump(), await scene.events()
            yield scene

    # ── runs ──

    @asynccontextmanager
    async def context(self, redis_url: str = "") -> AsyncIterator[Context]:
        """A new process, as far as Redis can tell; perhaps behind a proxy."""
        url = {"redis_url": SecretStr(redis_url)} if redis_url else {}
        async with open_context(self.settings.model_copy(update=url)) as context:
            yield context

    async def run(self, mode: CrawlMode = CrawlMode.INCREMENTAL, redis_url: str = "") -> None:
        """A pass over both sources, and a job for the article."""
        async with self.context(redis_url) as context:
            await crawl_source(context, WEB, mode)
            await crawl_source(context, FOLDER, mode)
            await refresh_articles(context)

    async def rewind(self) -> None:
        """The store as it was before the run under test."""
        self.site.forget_requests()
        await state.restore(self.raw, self.before)

    async def let_time_pass(self) -> None:
        """Leases end, and what was picked and never visited is due again: a quarter of an hour."""
        await state.let_leases_end(self.client, self.keys)
        now = await connect.now(self.client)
        for due in (self.keys.sources_due, *map(self.keys.due, (ARTICLES_SOURCE, WEB, FOLDER))):
            held = await self.client.zrange(due, now, now + HOLD_SECONDS, byscore=True)
            if held:
                await self.client.zadd(due, dict.fromkeys(held, now))

    async def let_articles_wait_no_longer(self) -> None:
        """Leases end; of the holds only that of the article, which no pass lists."""
        await state.let_leases_end(self.client, self.keys)
        now, due = await connect.now(self.client), self.keys.due(ARTICLES_SOURCE)
        for item_id in await self.client.zrange(due, now, now + HOLD_SECONDS, byscore=True):
            await self.client.zadd(due, {item_id: now})

    async def force(self, path: str) -> None:
        """Somebody asks for a page to be read anew."""
        now = await connect.now(self.client)
        assert await DueItems(self.client, self.keys).make_due([self.item_id(path)], now, force=True) == [True]

    def hold(self, path: str) -> Gate:
        """The next request for a page stands still."""
        page = self.site.web._pages[path]
        gate = Gate(page.next_reply())
        self.site.web.on(path, gate)
        return gate

    async def tick(self) -> int:
        """What the timer does."""
        queues = JobQueues(self.settings)
        try:
            return await Timer(self.settings, self.client, self.keys, queues).tick()
        finally:
            queues.close()

    async def forget_rq(self) -> int:
        """Delete every key of RQ."""
        names = [key async for key in self.client.scan_iter(match="rq:*", count=1000)]
        return await self.client.delete(*names) if names else 0

    # ── looking ──

    async def look(self) -> state.Picture:
        """Everything but RQ's own keys, which are nobody's business."""
        picture = await state.look(self.client, self.keys)
        ours = {key: held for key, held in picture.held.items() if not key.startswith("rq:")}
        return replace(picture, held=ours)

    async def dump(self) -> state.Dump:
        return state.dump(await self.look(), without=(*state.POLITENESS, *OF_RUNS))

    async def events(self) -> Counter[str]:
        """What was told of items."""
        told = [fields for _, fields in await self.client.xrange(self.keys.events)]
        return Counter(f"{one['type']} {one['id']}" for one in told if one["type"] != "run.finished" and "id" in one)

    async def counts(self) -> tuple[dict[str, str], list[tuple[str, ...]]]:
        """What was counted in all, and in each run."""
        run_ids = await self.client.zrange(self.keys.runs, 0, -1)
        runs = [await self.client.hgetall(self.keys.run(run_id)) for run_id in run_ids]
        names = ("source", "mode", "status", "message", *COUNTERS)
        told = sorted(tuple(run[name] for name in names) for run in runs if "discovered" in run)
        return await self.client.hgetall(self.keys.refresh_stats), told

    async def broken(self) -> list[str]:
        """What is wrong with the store at any time."""
        return state.problems(await self.look(), is_settled=False)

    async def inconsistencies(self, without_fields: set[str] | None = None) -> str:
        """What is wrong with the settled store, or how it differs from the fault-free end."""
        picture = await self.look()
        wrong = [*state.problems(picture, is_settled=False), *state.unsettled_items(picture)]
        ours = state.dump(picture, without=(*state.POLITENESS, *OF_RUNS))
        ignored = {"links_dirty", "verifiedBy", *(without_fields or ())}
        wrong.append(state.difference(without(self.fault_free, ignored), without(ours, ignored)))
        told = await self.events()
        if told != self.told:
            wrong.append(f"events: missing {self.told - told}, too many {told - self.told}")
        return "\n".join(wrong).strip()

    async def item(self, path: str) -> dict[str, str]:
        return await self.client.hgetall(self.keys.item(self.item_id(path)))

    async def due(self, path: str) -> float | None:
        return await self.client.zscore(self.keys.due(WEB), self.item_id(path))

    async def statuses(self) -> Counter[str]:
        """How many items of the site have which status."""
        refs = await self.client.zrange(self.keys.refs(WEB), 0, -1)
        return Counter([await self.client.hget(self.keys.item(item_id), "status") for item_id in refs])

    def item_id(self, path: str) -> str:
        return ids.item_id("url", normalise_url(self.site.url(path)))

    async def text(self, path: str) -> str:
        return await self.client.hget(self.keys.document(self.item_id(path)), "markdown") or ""

    @property
    def asked(self) -> Counter[str]:
        """How often each page was asked for since the last rewind."""
        return Counter(path for path in self.site.web.paths if path != "/sitemap.xml")

    @property
    def redis_url(self) -> str:
        return connect.url_of(self.settings)

    # ── furnishing ──

    async def _live_before(self) -> None:
        site = self.site
        site.web.robots("User-agent: *\nDisallow: /docs/secret")
        known = ["same", "changed", "gone", "missing", "moved", "orphan", "secret"]
        site.page("/docs/", links=[f"/docs/{name}" for name in known])
        for name in known:
            site.page(f"/docs/{name}", f"This is {name}. {_picture('one')}{_picture('two')}")
        site.web.page("/sitemap.xml", _sitemap(site.url("/docs/hidden"), "2026-01-01"), media_type="application/xml")
        site.page("/docs/hidden", "In the sitemap alone.")
        site.page("/news/story", "A story that will be corrected.")
        self._write({"kept.md": "Kept.", "edited.md": "Before.", "removed.md": "Removed.", "old-name.md": "Renamed."})
        await self.client.sadd(self.keys.category_links("world"), site.url("/news/story"))
        async with self.context() as context:
            await canonical_fetcher.run_once(context, 60)
            await add_sources(context, site.url("/docs/"), self.folder)
            await crawl_source(context, WEB, CrawlMode.INCREMENTAL)
            await crawl_source(context, FOLDER, CrawlMode.INCREMENTAL)

    async def _change(self) -> None:
        site, keys = self.site, self.keys
        site.page(
            "/docs/", links=[f"/docs/{n}" for n in ("same", "changed", "gone", "missing", "moved", "secret", "new")]
        )
        site.page("/docs/changed", f"Corrected. {_picture('two')}{_picture('three')}", links=["/docs/same"])
        site.page("/docs/new", "Brand new.", links=["/docs/deeper"])
        site.page("/docs/deeper", "Found behind the new one.")
        site.remove("/docs/gone", 410)
        site.remove("/docs/missing", 404)
        site.web.redirect("/docs/moved", "/docs/moved-here", 301)
        site.page("/docs/moved-here", "This is moved.")
        site.web.page("/sitemap.xml", _sitemap(site.url("/docs/hidden"), "2026-02-02"), media_type="application/xml")
        site.page("/docs/hidden", "In the sitemap alone, corrected.")
        site.page("/news/story", "A story that was corrected, by its own publisher.")
        (self.folder / "removed.md").unlink()
        (self.folder / "old-name.md").rename(self.folder / "new-name.md")
        self._write({"edited.md": "After.", "added.md": "Added."}, FILE_TS + 60)
        # Everything is due by its own schedule, so that a scheduled pass has the work of an incremental one.
        for sid in (ARTICLES_SOURCE, WEB):
            for item_id in await self.client.zrange(keys.due(sid), 0, -1):
                await self.client.zadd(keys.due(sid), {item_id: 1})
        await self.client.delete(keys.events, keys.lost(WEB), keys.lost(FOLDER))
        await self.client.zadd(keys.sources_due, {WEB: 1, FOLDER: 1})

    def _write(self, files: dict[str, str], ts: int = FILE_TS) -> None:
        self.folder.mkdir(exist_ok=True)
        for name, text in files.items():
            path = self.folder / name
            path.write_text(f"# {name}\n\n{text} The gauge is read every ten minutes, in any weather, by hand.\n")
            os.utime(path, (ts, ts))


def without(dump: state.Dump, fields: set[str]) -> state.Dump:
    return {
        key: (kind, hours, {n: v for n, v in held.items() if n not in fields} if kind == "hash" else held)
        for key, (kind, hours, held) in dump.items()
    }


def _picture(name: str) -> str:
    return f'<img src="/pictures/{name}.png" alt="The {name} weir" width="640" height="480">'


def _sitemap(url: str, lastmod: str) -> str:
    return (
        '<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
        f"<url><loc>{url}</loc><lastmod>{lastmod}</lastmod></url></urlset>"
    )


async def add_sources(context: Context, root: str, folder: Path | None = None) -> None:
    """A domain of a site and a folder."""
    folders = [{"id": "files", "path": str(folder)}] if folder else []
    domain = parse_domain(
        json.dumps({"id": "docs", "web_sources": [{"id": "site", "url": root}], "folder_sources": folders}), "/"
    )
    now = await connect.now(context.client)
    for config in domain.sources():
        ref = Ref(config.config["url"]) if "url" in config.config else None
        await context.sources.add(config, item_id_of(ref) if ref else "", now)
        if ref:
            await context.registrar.register([ref], Listing(config.sid), now)


async def refresh_articles(context: Context) -> None:
    """What a job of the timer does."""
    clock = await ServerClock.ask(context.client)
    now = clock.now()
    picked: Sequence[str] = await context.due.pick(ARTICLES_SOURCE, now, 100, HOLD_SECONDS)
    visitor = Visitor(context, clock, OpenSources(context, now))
    await visitor.visit_many(picked, picked_ts=now, via=ARTICLES_SOURCE)


async def _main(sid: str, mode: CrawlMode) -> None:
    async with open_context(load()) as context:
        await crawl_source(context, sid, mode)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], CrawlMode(sys.argv[2])))
