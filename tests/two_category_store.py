"""A store with two categories: feeds, links, articles, one of them hidden, one failure; to be renamed and dropped."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from core import ids
from core.feeds.feed_toml import parse_toml
from core.feeds.io.category_changes import CategoryChanges
from core.feeds.io.link_store import Ttls
from core.feeds.io.subscription_sync import import_feeds
from core.runtime.context import Context
from tests.articles import ArticlePage, article, rss
from tests.web import FakeWeb
from workers import canonical_fetcher, ingestor

OLD, OTHER, NEW = "oldname", "other", "newname"
"""Words that stand nowhere else."""
FILE = Path("/srv/imported.toml")


@dataclass
class Newspaper:
    """One feed is in the first category only, another one in both."""

    context: Context
    web: FakeWeb
    own: str = ""
    shared: str = ""
    pages: dict[str, ArticlePage] = field(default_factory=dict)

    @classmethod
    async def print(cls, context: Context, web: FakeWeb) -> Newspaper:
        """Poll the feeds and fetch their articles."""
        paper = cls(context, web, web.url("/own"), web.url("/shared"))
        for name in ("a", "b", "c", "hidden"):
            web.page(f"/{name}", article(f"Story {name}", text=f"About {name}."))
            paper.pages[name] = ArticlePage(context, web, f"/{name}")
        web.on("/broken", 404)
        web.page("/own", rss(*map(web.url, ("/a", "/b", "/hidden", "/broken"))))
        web.page("/shared", rss(web.url("/c")))
        by_file = f'[categories]\n{OLD} = ["{paper.own}"]\n'
        await import_feeds(context.client, context.keys, context.settings, FILE, parse_toml(by_file))
        for category in (OLD, OTHER):
            await context.subscriptions.add(category, paper.shared)
        await paper.work()
        await paper._hide("hidden")
        await context.client.sadd(context.keys.category_links(OLD), "https://by.hand.example/x")
        return paper

    async def work(self) -> None:
        """One cycle of the ingestor and one run of the fetcher."""
        await ingestor.run_cycle(self.context)
        await canonical_fetcher.run_once(self.context, 60.0)

    async def _hide(self, name: str) -> None:
        self.web.on(f"/{name}", 404)
        await self.pages[name].visit()
        assert (await self.pages[name].hash())["status"] == "gone"

    def changes(self, *, dry_run: bool = False) -> CategoryChanges:
        context = self.context
        return CategoryChanges(context.client, context.keys, Ttls.of(context.settings), dry_run=dry_run)

    def uids(self, *names: str) -> set[str]:
        return {self.pages[name].uid for name in names}

    async def articles(self, category: str) -> set[str]:
        return set(await self.context.client.smembers(self.context.keys.articles_by_category(category)))

    async def links(self, category: str) -> dict[str, float | None]:
        """The links of a category with their last-seen times."""
        client, keys = self.context.client, self.context.keys
        members = sorted(await client.smembers(keys.category_links(category)))
        return {link: await client.zscore(keys.category_links_seen(category), link) for link in members}

    async def failure(self) -> dict[str, str]:
        uid = ids.article_uid(self.web.url("/broken"))
        return dict(await self.context.client.hgetall(self.context.keys.failure(uid)))

    async def traces(self, word: str) -> list[str]:
        """Where a word stands in the store, beside history: events, runs, what is written down about changes."""
        client, keys, found = self.context.client, self.context.keys, []
        readers = {
            "hash": client.hgetall,
            "set": client.smembers,
            "string": client.get,
            "zset": lambda key: client.zrange(key, 0, -1),
        }
        passing = (keys.done(""), keys.lease(""), keys.run(""))
        async for key in client.scan_iter("*"):
            if key in (keys.events, keys.category_changes) or key.startswith(passing):
                continue
            reader = readers.get(await client.type(key))
            if word in key or (reader and word in str(await reader(key))):
                found.append(key)
        return sorted(found)
