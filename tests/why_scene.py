"""One store in which URLs are missing in every way, and some are there: made by the real pipeline where that is quick.

Hosts on loopback: `.1` is a newspaper, `.2` has documentation, `.3` asked us to stay away, and the robots.txt of `.4`
cannot be read.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from core import ids
from core.feeds.io.link_store import Ttls
from core.models import Ref
from core.registry.io.batch_visitor import Visitor
from core.registry.io.periodic_cleanup import ArticleExpiry
from core.registry.io.registrar import Listing, item_id_of
from core.registry.io.why_trail_reader import explain_url
from core.registry.why_verdict import Trail
from core.runs.run import domain_scope, source_scope
from core.runtime.context import Context
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.sources.io.domain_file import parse_domain
from core.sources.io.open_sources import OpenSources
from core.store import connect
from core.store.clock import ServerClock
from core.urls.normalise import normalise_url
from tests.articles import article, rss
from tests.crawled_site import crawl_context
from tests.site import html
from tests.web import FakeWeb
from workers import canonical_fetcher, ingestor

HOSTS = tuple(f"127.0.0.{number}" for number in range(1, 5))
OPAQUE = "https://news.google.com/rss/articles/CBMiabc?oc=5"
TRAP = "/docs/more/more/more/more/more"


class Scene:
    """The store, and the addresses of what is in it."""

    def __init__(self, context: Context, web: FakeWeb, folder: Path) -> None:
        self.context, self.web, self.folder = context, web, folder
        self.client, self.keys = context.client, context.keys

    def news(self, path: str) -> str:
        return self.web.url(path)

    def docs(self, path: str) -> str:
        return self.web.url(path, HOSTS[1])

    def item_id(self, url: str) -> str:
        return ids.item_id("url", normalise_url(url))

    def image_id(self, page: str, image: str) -> str:
        """The same picture on another page is another item."""
        return ids.item_id("url", f"{normalise_url(self.docs(image))}#{self.item_id(self.docs(page))}")

    async def explain(self, name: str) -> Trail:
        settings = self.context.settings
        return await explain_url(self.client, self.keys, settings, name, await connect.now(self.client))

    # ── the newspaper ──

    async def print_news(self) -> None:
        web, news = self.web, self.news
        stories = ("ok", "kept", "hidden", "expired", "ended", "dead-target", "late")
        for number, name in enumerate(stories):
            web.page(f"/{name}", article(f"Story {number}", text=f"Word{number} and what followed from it. " * 3))
        web.page("/twin", article("Story 0", text="Word0 and what followed from it. " * 3))
        for path, status in (("/gone", 410), ("/forbidden", 403), ("/error", 500)):
            web.on(path, status)
        web.reset("/reset")
        web.hang("/slow")
        web.page("/empty", "<html><body></body></html>")
        web.wrong_type("/archive", b"PK\x03\x04" + bytes(500), "application/zip")
        web.page("/large", "x" * 200_000)
        web.redirect("/home", "/")
        web.page("/", article("Home"))
        web.redirect_loop("/loop-a", "/loop-b")
        web.redirect("/alias", "/ok", 301)
        web.redirect("/alias-dead", "/dead-target", 301)
        web.robots("User-agent: *\nAllow: /\nDisallow: /secret\nDisallow: /secret/deep")
        first = ("ok", "kept", "hidden", "expired", "ended", "dead-target")
        web.page("/feed", rss(*(news(f"/{name}") for name in first)))
        await self._poll("world", "/feed")
        await canonical_fetcher.run_once(self.context, 60.0)
        second = (
            "missing",
            "gone",
            "forbidden",
            "error",
            "reset",
            "slow",
            "empty",
            "archive",
            "large",
            "home",
            "loop-a",
        )
        second += ("alias", "alias-dead", "twin", "secret/deep/x")
        web.page("/feed2", rss(*(news(f"/{name}") for name in second), OPAQUE))
        await self._poll("world", "/feed2")
        links = (f"http://{HOSTS[3]}:{web.port}/a", "ftp://files.example/x", "http://10.0.0.1/inside", self._away)
        await self.client.sadd(self.keys.category_links("world"), *links)
        await self.context.fetcher.hold_off(self._away, 3_600.0, "Retry-After (429)")
        web.on(f"{HOSTS[3]}/robots.txt", 503)
        await canonical_fetcher.run_once(self.context, 60.0)
        web.page("/feed3", rss(news("/late"), news("/leased")))
        web.on("/bad-feed", 500)
        web.on("/dead-feed", 410)
        for path in ("/feed3", "/bad-feed", "/dead-feed"):
            await self._poll("world", path)
        await self.client.sadd(self.keys.feeds("world"), news("/new-feed"))
        await self.client.sadd(self.keys.attempted, ids.article_uid(news("/forgotten")))
        await self.client.set(self.keys.lease(self.item_id(news("/leased"))), "token", ex=600)

    @property
    def _away(self) -> str:
        return self.web.url("/a", HOSTS[2])

    async def _poll(self, category: str, path: str) -> None:
        await self.client.sadd(self.keys.feeds(category), self.news(path))
        await ingestor.run_cycle(self.context)

    async def age_news(self) -> None:
        """Articles end, hide, fail their checks."""
        client, keys = self.client, self.keys
        await client.delete(keys.article(ids.article_uid(self.news("/ended"))))
        now = await connect.now(client)
        await ArticleExpiry(client, keys, Ttls.of(self.context.settings)).run(now)
        await client.delete(*(keys.article(ids.article_uid(self.news(path))) for path in ("/expired", "/dead-target")))
        self.web.on("/hidden", 404)
        self.web.on("/kept", 503)
        await self._visit("rss", "/hidden", "/kept")

    async def _visit(self, source: str, *paths: str) -> None:
        clock = await ServerClock.ask(self.client)
        build = self.news if source == "rss" else self.docs
        item_ids = [self.item_id(build(path)) for path in paths]
        await self.context.due.make_due(item_ids, clock.now())
        await Visitor(self.context, clock, OpenSources(self.context, clock.now())).visit_many(item_ids, via=source)

    # ── the documentation ──

    def page(self, path: str, *links: str, head: str = "", text: str = "") -> None:
        self.web.page(f"{HOSTS[1]}{path}", html(path, text or f"This is {path}.", links, head))

    async def print_docs(self) -> None:
        page = self.page
        self.web.on(f"{HOSTS[1]}/robots.txt", "User-agent: Freshet\nDisallow: /docs/robots/\n")
        names = (
            "ok",
            "private/x",
            "one",
            "pic.jpg",
            "noindex",
            "404",
            "410",
            "lost",
            "robots/x",
            "moved",
            "500",
            "poison",
        )
        names += ("orphan",)
        page("/docs/", *(f"/docs/{name}" for name in names), TRAP, "/other/x")
        image = '<img src="/docs/weir.png" alt="The weir at Marbach" width="400" height="300">'
        page("/docs/ok", text=f"This is the page with the picture. {image}")
        page("/docs/one", "/docs/two")
        page("/docs/two", "/docs/three")
        page("/docs/noindex", head='<meta name="robots" content="noindex">')
        for name in ("lost", "orphan", "poison", "three", "listed"):
            page(f"/docs/{name}")
        for status in (404, 410, 500):
            self.web.on(f"{HOSTS[1]}/docs/{status}", status)
        self.web.redirect(f"{HOSTS[1]}/docs/moved", "/docs/ok", 301)
        listed = f"<url><loc>{self.docs('/docs/listed')}</loc></url>"
        space = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
        self.web.page(f"{HOSTS[1]}/sitemap.xml", f"<urlset {space}>{listed}</urlset>", media_type="application/xml")
        page("/guide/", "/guide/de/x")
        page("/tiny/", *(f"/tiny/{number}" for number in range(5)))
        for number in range(5):
            page(f"/tiny/{number}")
        page("/small/", "/small/a", "/small/b", "/small/c")
        for name in "abc":
            page(f"/small/{name}")
        await self._add_domain(
            "docs",
            site={"url": self.docs("/docs/"), "exclude": ["/docs/private/*"], "max_depth": 2},
            guide={"url": self.docs("/guide/"), "include": ["/guide/en/*"], "sitemap": False},
            tiny={"url": self.docs("/tiny/"), "max_pages": 3, "sitemap": False},
            small={"url": self.docs("/small/"), "sitemap": False},
        )
        await self._add_domain("paused", site={"url": self.docs("/paused/")})
        await self._add_domain("later", site={"url": self.docs("/later/")})
        await self._add_domain("cancelled", site={"url": self.docs("/cancelled/")})
        await self.client.hset(self.keys.runs_paused, domain_scope("paused"), "2026-01-31T12:00:00Z")
        await self.client.hset(self.keys.runs_cancelled, source_scope("cancelled.site"), "jb_1_abcdef01")
        await self.client.set(self.keys.crashes(self.item_id(self.docs("/docs/poison"))), 3)
        await self._crawl("site", "guide", "tiny", "small")

    async def _add_domain(self, domain_id: str, **sources: dict[str, Any]) -> None:
        configs = [{"id": name, **config} for name, config in sources.items()]
        domain = parse_domain(json.dumps({"id": domain_id, "web_sources": configs}), "/")
        now = await connect.now(self.client)
        for record in domain.sources():
            ref = Ref(record.config["url"])
            await self.context.sources.add(record, item_id_of(ref), now)
            await self.context.registrar.register([ref], Listing(record.sid), now)

    async def _crawl(self, *names: str) -> None:
        for name in names:
            await crawl_source(self.context, f"docs.{name}", CrawlMode.INCREMENTAL)

    async def age_docs(self) -> None:
        """Pages disappear, one is linked no more."""
        names = ("ok", "one", "noindex", "404", "410", "lost", "robots/x", "moved", "500", "poison")
        self.page("/docs/", *(f"/docs/{name}" for name in (*names, "private/x", "pic.jpg")), TRAP, "/other/x")
        self.web.on(f"{HOSTS[1]}/docs/lost", 404)
        await self._crawl("site")
        for name in "ab":  # one after the other: the second is too much
            self.web.on(f"{HOSTS[1]}/small/{name}", 404)
            await self._crawl("small")

    # ── files ──

    async def fill_folder(self) -> None:
        (self.folder / "notes.md").write_text("# Notes\n\nThe gauge was read at noon and again in the evening.\n")
        (self.folder / "draft.md").write_text("# Draft\n")
        config = {"id": "shelf", "path": str(self.folder), "exclude": ["draft.md"]}
        [record] = parse_domain(json.dumps({"id": "papers", "folder_sources": [config]}), "/").sources()
        await self.context.sources.add(record, "", await connect.now(self.client))
        await crawl_source(self.context, "papers.shelf", CrawlMode.INCREMENTAL)


@asynccontextmanager
async def open_scene(settings: Settings, folder: Path) -> AsyncIterator[Scene]:
    """Everything, in a store that was empty."""
    more = {"loss_limit_items": 1, "loss_limit_percent": 20.0, "fetch_timeout_seconds": 3.0, "fetch_max_bytes": 100_000}
    async with FakeWeb(*HOSTS) as web, crawl_context(settings, **more) as context:
        scene = Scene(context, web, folder)
        await scene.print_news()
        await scene.print_docs()
        await scene.age_news()
        await scene.age_docs()
        await scene.fill_folder()
        yield scene
