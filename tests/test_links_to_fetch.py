"""The canonical fetcher finds every new link, and in a large store without comparing all of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from core import ids
from core.feeds.io.link_store import FailedLinks, LinkStore, Ttls
from core.feeds.io.links_to_fetch import LATE_COMMIT_SECONDS, LinkFinder, NewLinks
from core.keys import Keys
from core.settings import Settings
from core.store import scanning
from core.store.connect import Client
from core.store.leases import Leases

NOW = 1_700_000_000.0
OLD = [f"https://a.example/{n}" for n in range(5)]
MANY = [f"https://many.example/{n}" for n in range(scanning.SMALL_STORE_KEYS)]
CATEGORIES = ["tech", "world"]


class Links:
    """A large store whose old links were attempted, and a run that has looked at all of them."""

    def __init__(self, client: Client, keys: Keys, settings: Settings) -> None:
        self.client = client
        self.keys = keys
        self.store = LinkStore(client, keys, Ttls.of(settings))
        self.finder = LinkFinder(client, keys)

    async def see(self, links: Sequence[str], at: float, categories: Sequence[str] = CATEGORIES) -> None:
        """A poll lists these links."""
        await Leases(self.client, self.keys).run(self.store.mark_seen(categories, links, at))

    async def attempt(self, *links: str) -> None:
        uids = [ids.article_uid(url) for url in links]
        await self.client.sadd(self.keys.attempted, *uids)
        await self.client.zadd(self.keys.attempted_at, dict.fromkeys(uids, NOW))

    async def run(self, at: float) -> NewLinks:
        """A run that fetches all it finds."""
        new = await self.finder.find(CATEGORIES, at)
        if new.links:
            await self.attempt(*new.links)
        await self.finder.remember(new.mark)
        return new

    async def full_ts(self) -> float:
        """When all links were last compared."""
        return float(await self.client.hget(self.keys.canonical_scan, "full_ts") or 0)


@pytest.fixture
async def links(redis: Client, keys: Keys, settings: Settings) -> Links:
    made = Links(redis, keys, settings)
    await made.see(OLD, NOW - 86_400)
    await made.see(MANY, NOW - 86_400, ["world"])
    await made.attempt(*OLD, *MANY)
    await made.run(NOW)
    return made


async def test_known_links_are_not_compared_again(links: Links) -> None:
    """A second run knows as many links as the first, each once, and has not read the sets."""
    before = (await links.client.info("commandstats")).get("cmdstat_sscan", {}).get("calls", 0)
    new = await links.run(NOW + 60)
    after = (await links.client.info("commandstats")).get("cmdstat_sscan", {}).get("calls", 0)

    assert (new.known, new.links, before) == (len(OLD) + len(MANY), {}, after)
    assert await links.full_ts() == NOW


async def test_link_seen_since_is_found(links: Links) -> None:
    """A new link is found with all its categories, also if the poll that saw it committed late."""
    await links.see(["https://a.example/late"], NOW - LATE_COMMIT_SECONDS / 2)
    await links.see(["https://a.example/new"], NOW + 30, ["world"])
    new = await links.run(NOW + 60)

    assert new.links == {"https://a.example/late": ("tech", "world"), "https://a.example/new": ("world",)}
    assert (await links.run(NOW + 120)).links == {}
    assert await links.full_ts() == NOW


async def test_links_that_a_run_left_over_are_found_again(links: Links) -> None:
    """A run that is killed, or out of time, leaves no mark."""
    await links.see(["https://a.example/new"], NOW + 30)
    await links.finder.find(CATEGORIES, NOW + 60)

    assert list((await links.run(NOW + 5 * LATE_COMMIT_SECONDS / 2)).links) == ["https://a.example/new"]


async def test_link_added_by_hand_is_found_at_once(links: Links) -> None:
    """SADD without a last-seen time makes the next run compare all."""
    await links.client.sadd(links.keys.category_links("world"), "https://b.example/by-hand")

    assert (await links.run(NOW + 60)).links == {"https://b.example/by-hand": ("world",)}
    assert await links.full_ts() == NOW + 60


async def test_link_that_a_command_made_new_is_found_at_once(links: Links) -> None:
    """Also if the command came while a run was under way, and the link was seen long ago."""
    under_way = await links.finder.find(CATEGORIES, NOW + 60)
    await FailedLinks(links.client, links.keys).retry([ids.article_uid(OLD[1])], NOW + 61)
    await links.finder.remember(under_way.mark)

    assert list((await links.run(NOW + 120)).links) == [OLD[1]]


async def test_retry_that_came_due_is_found(links: Links) -> None:
    """A link whose retry is due is fetched again, with the categories that list it now."""
    uid = ids.article_uid(OLD[2])
    await links.client.srem(links.keys.attempted, uid)
    await links.client.zadd(links.keys.retry, {uid: NOW + 30})
    await links.client.hset(links.keys.failure(uid), mapping={"url": OLD[2], "category": "world"})

    assert (await links.run(NOW + 60)).links == {OLD[2]: ("tech", "world")}
    assert await links.full_ts() == NOW


@pytest.mark.parametrize("mark", [{}, {"ts": "never"}, {"full_ts": NOW + 1e6}, {"resets": 3}])
async def test_damaged_or_old_mark_compares_all(links: Links, mark: dict[str, str]) -> None:
    """An attempt that aged out is found when all are compared: after an hour, or if the mark cannot be trusted."""
    await links.client.srem(links.keys.attempted, ids.article_uid(OLD[3]))
    if mark:
        await links.client.hset(links.keys.canonical_scan, mapping=mark)
    at = NOW + 60 if mark else NOW + scanning.FULL_EVERY_SECONDS

    assert list((await links.run(at)).links) == [OLD[3]]
