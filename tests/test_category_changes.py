"""Categories that are renamed, merged and dropped: with everything that names them, beside workers at work."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from core import ids
from core.errors import FeedFileError
from core.feeds.io.poller import PollCycle
from core.outputs.io.webhook_store import WebhookStore
from core.outputs.webhook_filter import EventFilter, checked_filter
from core.runtime.context import Context
from core.search.models import Filters
from core.settings import Settings
from core.store import connect
from core.store.connect import texts
from scripts import feeds
from tests import commands
from tests.articles import ArticlePage, article, rss
from tests.search_site import open_library
from tests.two_category_store import FILE, NEW, OLD, OTHER, Newspaper
from tests.web import FakeWeb
from workers import canonical_fetcher, ingestor


@pytest.fixture
async def paper(context: Context, web: FakeWeb) -> Newspaper:
    return await Newspaper.print(context, web)


# ── rename ──────────────────────────────────────────────────────────────────────────────────────


async def test_everything_has_the_new_name(paper: Newspaper) -> None:
    """Feeds, marks of files, links with their times, articles, items, failures: nothing names the old one."""
    context = paper.context
    links, articles = await paper.links(OLD), await paper.articles(OLD)
    changes = paper.changes()
    await changes.rename(OLD, NEW)

    assert await context.subscriptions.by_category() == {NEW: sorted([paper.own, paper.shared]), OTHER: [paper.shared]}
    assert await context.client.smembers(context.keys.feeds_imported(str(FILE))) == {f"{NEW} {paper.own}"}
    assert (await paper.links(NEW), await paper.links(OLD)) == (links, {})
    assert (await paper.articles(NEW), articles) == (paper.uids("a", "b", "c"), paper.uids("a", "b", "c"))
    assert (await paper.pages["a"].hash())["categories"] == (await paper.pages["a"].hash())["category"] == NEW
    assert sorted((await paper.pages["c"].hash())["categories"].split(",")) == [NEW, OTHER]
    assert (await paper.pages["hidden"].hash())["categories"] == NEW
    assert (await paper.pages["a"].item())["articleCategories"] == NEW
    assert (await paper.failure())["category"] == NEW
    assert await context.subscriptions.categories() == [NEW, OTHER]
    assert await paper.traces(OLD) == []
    assert (changes.counts.feeds, changes.counts.links, changes.articles) == (2, 6, 4)
    assert changes.counts.origins == {str(FILE)}


async def test_webhooks_follow(paper: Newspaper) -> None:
    """A webhook for a category is one for its new name; after a merge the name is there once, others are left alone."""
    store = WebhookStore(paper.context.client, paper.context.keys)
    wanted = checked_filter(["article.stored"], [OLD, OTHER], search="flood")
    followed, other = (
        await store.add("https://e.org/a", wanted, 1.0),
        await store.add("https://e.org/b", EventFilter(), 2.0),
    )
    await paper.changes().rename(OLD, NEW)
    renamed = await store.require(followed.id)
    await paper.changes().rename(NEW, OTHER)

    assert renamed.filter == replace(wanted, categories=(NEW, OTHER))
    assert (await store.require(followed.id)).filter.categories == (OTHER,)
    assert await store.require(other.id) == other


async def test_renamed_category_goes_on_as_before(paper: Newspaper) -> None:
    """Nothing is fetched again, nothing is new, and the next poll writes to the new name."""
    await paper.changes().rename(OLD, NEW)
    paper.web.requests.clear()
    for fid in await paper.context.feeds.all_ids():
        await paper.context.client.zadd(paper.context.keys.feeds_due, {fid: 0})
    await paper.work()

    assert set(paper.web.paths) <= {"/own", "/shared"}
    assert await paper.articles(NEW) == paper.uids("a", "b", "c")
    assert await paper.traces(OLD) == []


async def test_merging_keeps_what_both_had(paper: Newspaper) -> None:
    """A feed, a link and an article of both are there once; the later sighting of a link counts."""
    context = paper.context
    link = paper.web.url("/c")
    await context.client.zadd(context.keys.category_links_seen(OTHER), {link: 5e9})
    await paper.changes().rename(OLD, OTHER)

    assert await context.subscriptions.by_category() == {OTHER: sorted([paper.own, paper.shared])}
    assert (await paper.links(OTHER))[link] == 5e9
    assert await paper.articles(OTHER) == paper.uids("a", "b", "c")
    assert (await paper.pages["c"].hash())["categories"] == OTHER
    assert await paper.traces(OLD) == []


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (OLD, "New Name", "'New Name' is not the name of a category; use a-z, 0-9, _ and -, for example new_name"),
        (OLD, "", "is not the name of a category"),
        (OLD, OLD, "has this name already"),
        (OLD, "sample_x", "Names that begin with sample_ are the sample's"),
        ("oldnome", NEW, "There is no category oldnome. Did you mean oldname?"),
    ],
)
async def test_names_that_cannot_be(paper: Newspaper, old: str, new: str, sentence: str) -> None:
    """A sentence, and nothing is changed."""
    before = await paper.context.subscriptions.by_category()
    with pytest.raises(FeedFileError, match=sentence):
        await paper.changes().rename(old, new)

    assert await paper.context.subscriptions.by_category() == before


async def test_category_made_by_hand_gets_a_proper_name(context: Context) -> None:
    """Its name need not be a slug; that may be why it is renamed."""
    await context.client.sadd(context.keys.feeds("jobs: report"), "https://a.example/feed")
    await Newspaper(context, None).changes().rename("jobs: report", "jobs")  # type: ignore[arg-type]

    assert await context.subscriptions.by_category() == {"jobs": ["https://a.example/feed"]}


async def test_search_filters_by_the_new_name(settings: Settings) -> None:
    """The replica is told by an event; nobody embeds anything again."""
    async with open_library(settings, {"/x": "Nothing."}) as library:
        page = ArticlePage(library.context, library.site.web, "/a")
        page.write("About the weir.")
        await page.store()
        await library.embed()
        before = await library.urls("weir", filters=Filters(categories=("world",)))
        await Newspaper(library.context, library.site.web).changes().rename("world", NEW)
        after = (
            await library.urls("weir", filters=Filters(categories=("world",))),
            await library.urls("weir", filters=Filters(categories=(NEW,))),
        )

        assert (before, after) == (["/a"], ([], ["/a"]))


# ── beside workers ──────────────────────────────────────────────────────────────────────────────


async def test_cycle_that_began_before_does_not_bring_the_old_name_back(paper: Newspaper) -> None:
    """The poller asks again under the lease which categories list its feed."""
    context = paper.context
    paper.web.page("/own", rss(paper.web.url("/new"), paper.web.url("/a")))
    await context.client.zadd(context.keys.feeds_due, dict.fromkeys(await context.feeds.all_ids(), 0))
    late = await PollCycle.start(context)
    await paper.changes().rename(OLD, NEW)
    await late.poll_many(await late.due_feeds())
    await ingestor.run_cycle(context)

    assert await paper.traces(OLD) == []
    assert await context.subscriptions.categories() == [NEW, OTHER]


@pytest.mark.parametrize("to", [NEW, ""])
async def test_late_article_follows(paper: Newspaper, to: str) -> None:
    """A fetcher that began before stores under the old name; the next cycle takes that along, or away."""
    context = paper.context
    paper.web.page("/late", article("Late", text="Came late."))
    paper.web.page("/own", rss(paper.web.url("/late")))
    await context.client.zadd(context.keys.feeds_due, {ids.feed_id(paper.own): 0})
    await ingestor.run_cycle(context)
    late = await canonical_fetcher.find_links(context.client, context.keys, context.settings)
    await (paper.changes().rename(OLD, to) if to else paper.changes().drop(OLD))
    await canonical_fetcher.fetch_links(context, late, 60.0)
    stored = ArticlePage(context, paper.web, "/late")
    under_old = await stored.hash()
    await ingestor.run_cycle(context)

    assert under_old["category"] == OLD
    assert (await stored.hash()).get("category", "") == to
    assert await paper.traces(OLD) == []


async def test_name_that_is_used_again_is_left_alone(paper: Newspaper) -> None:
    """A feed in the old category makes it one of its own; nothing follows the rename any more."""
    context = paper.context
    await paper.changes().rename(OLD, NEW)
    await context.subscriptions.add(OLD, paper.own)
    await ingestor.run_cycle(context)
    await ingestor.run_cycle(context)

    assert (await context.subscriptions.by_category())[OLD] == [paper.own]
    assert paper.web.url("/a") in await paper.links(OLD)
    assert await context.client.exists(context.keys.category_changes) == 0


async def test_names_can_be_swapped_back(paper: Newspaper) -> None:
    """There and back again, before anything was forgotten about the first time."""
    links = await paper.links(OLD)
    await paper.changes().rename(OLD, NEW)
    await paper.changes().rename(NEW, OLD)
    await ingestor.run_cycle(paper.context)

    assert (await paper.links(OLD)).keys() == links.keys()
    assert await paper.traces(NEW) == []


async def test_what_is_written_down_ends(paper: Newspaper) -> None:
    """An hour later nobody is late, and nothing is left of it."""
    context = paper.context
    await paper.changes().rename(OLD, NEW)
    kept = json.loads(await context.client.hget(context.keys.category_changes, OLD))
    await paper.changes().finish_pending(await connect.now(context.client) + 3_601)

    assert (kept["to"], kept["done_ts"] > 0) == (NEW, True)
    assert await context.client.exists(context.keys.category_changes) == 0


async def test_visit_under_way_is_waited_for(paper: Newspaper) -> None:
    """What it writes back at its end is not the old name."""
    context, page = paper.context, paper.pages["a"]
    now = await connect.now(context.client)
    [visited] = await context.items.lease(context.leases, [page.id], now)
    renaming = asyncio.create_task(paper.changes().rename(OLD, NEW))
    while not await paper.links(NEW):
        await asyncio.wait([renaming], timeout=0.01)
    await context.leases.release(visited.lease)
    await renaming

    assert (await page.hash())["category"] == NEW
    assert await context.client.exists(context.keys.lease(page.id)) == 0
    assert (await page.item())["lockedUntil"] == ""


# ── drop ────────────────────────────────────────────────────────────────────────────────────────


async def test_dropped_category_leaves_what_others_have(paper: Newspaper) -> None:
    """Its own feed, links and articles are gone with all traces; the shared ones stay where they also are."""
    context = paper.context
    changes = paper.changes()
    await changes.drop(OLD)

    assert await context.subscriptions.by_category() == {OTHER: [paper.shared]}
    assert await context.subscriptions.categories() == [OTHER]
    assert await context.feeds.all_ids() == [ids.feed_id(paper.shared)]
    assert await paper.articles(OTHER) == paper.uids("c")
    assert (await paper.pages["c"].hash())["categories"] == (await paper.pages["c"].hash())["category"] == OTHER
    assert (await paper.pages["c"].item())["status"] in ("Crawled", "Indexed")
    assert await paper.traces(OLD) == []
    for name in ("a", "b", "hidden"):
        assert await paper.traces(paper.pages[name].uid) == []
        assert set(await paper.traces(paper.pages[name].id)) <= {context.keys.lost("rss")}  # for a day
    assert await paper.traces(ids.article_uid(paper.web.url("/broken"))) == []
    assert (changes.counts.feeds, changes.counts.kept_feeds, changes.counts.links) == (2, 1, 6)
    assert (changes.articles, changes.counts.forgotten.articles, changes.counts.forgotten.items) == (1, 3, 3)


async def test_dry_run_counts_the_same_and_changes_nothing(paper: Newspaper) -> None:
    """Both commands say beforehand what they would do."""
    before = await commands.everything(paper.context.client)
    planned_drop, planned_rename = paper.changes(dry_run=True), paper.changes(dry_run=True)
    await planned_drop.drop(OLD)
    await planned_rename.rename(OLD, NEW)
    after = await commands.everything(paper.context.client)
    done = paper.changes()
    await done.rename(OLD, NEW)
    dropped = paper.changes()
    await dropped.drop(NEW)

    assert after == before
    assert (planned_rename.counts, planned_rename.articles) == (done.counts, done.articles)
    assert (planned_drop.counts, planned_drop.articles) == (dropped.counts, dropped.articles)


async def test_feed_in_both_categories_goes_on(paper: Newspaper) -> None:
    """It is polled for the category that is left, and brings its links there."""
    context = paper.context
    await paper.changes().drop(OLD)
    paper.web.page("/shared", rss(paper.web.url("/c"), paper.web.url("/d")))
    await context.client.zadd(context.keys.feeds_due, {ids.feed_id(paper.shared): 0})
    await ingestor.run_cycle(context)

    assert paper.web.url("/d") in await paper.links(OTHER)
    assert texts(await context.client.keys("*oldname*")) == []


# ── the commands ────────────────────────────────────────────────────────────────────────────────


async def test_commands_say_how_much_and_what_the_file_does(
    paper: Newspaper, settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """feeds.toml would bring the old name back at its next import: that is told, with what to change."""
    commands.adopt(monkeypatch, settings)
    settings.feeds_file.write_text(f'[categories]\n{OLD} = ["{paper.own}"]\n')
    await feeds.rename(OLD, NEW, dry_run=False)
    renamed = capsys.readouterr().out.splitlines()
    await feeds.drop(NEW, dry_run=True)
    planned = capsys.readouterr().out.splitlines()
    await feeds.drop(NEW, dry_run=False)
    dropped = capsys.readouterr().out.splitlines()

    assert renamed == [
        f"Renamed {OLD} to {NEW}: 2 feeds, 6 links, 4 articles.",
        f"{settings.feeds_file} lists 1 feed in {OLD} and puts it back when Freshet starts or that file changes. "
        f"To keep {NEW}, write it in place of {OLD} there.",
    ]
    assert dropped[0] == (
        f"Dropped {NEW}: 2 feeds (1 in other categories, too), 6 links; 1 article kept in other categories."
    )
    assert [line.replace("Would drop", "Dropped").replace("Would forget", "Forgot") for line in planned] == dropped
    assert dropped[1].startswith("Forgot: 3 items, ")


async def test_next_import_of_the_file_does_what_was_told(paper: Newspaper) -> None:
    """It puts its feed back under the old name; changed as told, it leaves everything as it is."""
    context = paper.context
    path = context.settings.feeds_file
    await paper.changes().rename(OLD, NEW)
    path.write_text(f'[categories]\n{NEW} = ["{paper.own}"]\n')
    await ingestor.run_cycle(context)
    kept = await context.subscriptions.by_category()
    path.write_text(f'[categories]\n{OLD} = ["{paper.own}"]\n')
    await ingestor.run_cycle(context)
    back = await context.subscriptions.by_category()

    assert kept == {NEW: sorted([paper.own, paper.shared]), OTHER: [paper.shared]}
    assert paper.own in back[OLD]
