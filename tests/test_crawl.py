"""A documentation site kept fresh, end to end: real HTTP, real parse children, real server."""

from __future__ import annotations

import json

import pytest

from core.registry.io.commit_buffer import Progress
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.sources.io.domain_file import parse_domain
from core.store import connect
from core.urls.normalise import normalise_url
from tests.crawled_site import SID, add_site, counts, crawl_context, item, item_id, text
from tests.site import Site


async def test_site_is_crawled_by_its_links(settings: Settings, site: Site) -> None:
    """The root leads to its pages, those to theirs; each is asked for once, and the text is there."""
    site.page("/docs/", links=["/docs/a", "/docs/b", "/blog/x"])
    site.page("/docs/a", "About weirs.", links=["/docs/c", "/docs/"])
    site.page("/docs/b", "About sluices.")
    site.page("/docs/c", "About gauges.")
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/docs/"))
        run = await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert counts(run) == {"discovered": 4, "visited": 4, "changed": 4}
        assert sorted(site.web.paths) == sorted(["/docs/", "/docs/a", "/docs/b", "/docs/c", "/sitemap.xml"])
        assert "About gauges." in await text(context, site.url("/docs/c"))
        assert await context.client.zscore(context.keys.refs(SID), item_id(site.url("/docs/c"))) == 2
        record = await item(context, site.url("/docs/c"))
        assert record["status"] == "Crawled"
        assert record["sources"] == SID
        assert record["lockedUntil"] == ""


async def test_second_pass_asks_once_for_each_page_and_changes_nothing(settings: Settings, site: Site) -> None:
    """Unchanged pages answer 304: one tiny request each, no text read, no event."""
    site.page("/", links=["/a", "/b"])
    site.page("/a", links=["/"])
    site.page("/b", links=["/"])
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        events = await context.client.xlen(context.keys.events)
        site.forget_requests()

        run = await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert counts(run) == {"discovered": 3, "visited": 3, "unchanged": 3}
        assert sorted(site.web.paths) == ["/", "/a", "/b", "/sitemap.xml"]
        assert all("if-none-match" in seen.headers for seen in site.web.requests if seen.path != "/sitemap.xml")
        assert await context.client.xlen(context.keys.events) == events + 1  # run.finished


async def test_changed_new_and_removed_pages_are_found(settings: Settings, site: Site) -> None:
    """Of three changes each has its count: a text replaced, a page found behind a changed menu, a page gone."""
    site.page("/", links=["/a", "/b"])
    site.page("/a", "Old.")
    site.page("/b")
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        site.page("/", links=["/a", "/b", "/new"])
        site.page("/a", "Corrected.")
        site.page("/new", "Brand new.")
        site.remove("/b")
        seen: list[Progress] = []

        run = await crawl_source(context, SID, CrawlMode.INCREMENTAL, watch=seen.append)

        assert counts(run) == {"discovered": 4, "visited": 4, "changed": 2, "unchanged": 1, "gone": 1}
        assert "Corrected." in await text(context, site.url("/a"))
        assert "Brand new." in await text(context, site.url("/new"))
        assert await text(context, site.url("/b")) == ""
        assert [one.source for one in seen if one.deleted] == [normalise_url(site.url("/b"))]
        gone = [
            fields for _, fields in await context.client.xrange(context.keys.events) if fields["type"] == "item.gone"
        ]
        assert gone == [
            {
                "type": "item.gone",
                "id": item_id(site.url("/b")),
                "source": normalise_url(site.url("/b")),
                "deleted": "true",
            }
        ]


async def test_404_comes_back(settings: Settings, site: Site) -> None:
    """Out of search at once, and in again with the first good answer."""
    site.page("/", links=["/a"])
    site.page("/a", "Here.")
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        site.remove("/a")
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        missing = await item(context, site.url("/a"))
        site.page("/a", "Here.")

        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert (missing["status"], missing["httpStatusCode"], missing["missingChecks"]) == ("Error", "404", "1")
        back = await item(context, site.url("/a"))
        assert (back["status"], back["missingChecks"], back["errorMessage"]) == ("Crawled", "0", "")
        assert "Here." in await text(context, site.url("/a"))


async def test_orphan_is_removed_when_nothing_leads_to_it(settings: Settings, site: Site) -> None:
    """A page that still answers but that no page links to any more leaves the source and the search."""
    site.page("/", links=["/a", "/b"])
    site.page("/a", links=["/b"])
    site.page("/b", links=["/b"])
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        site.page("/", links=["/a"])
        site.page("/a", "Another text.", links=[])

        run = await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert counts(run)["gone"] == 1
        assert (await item(context, site.url("/b")))["status"] == "Gone"
        assert await text(context, site.url("/b")) == ""


async def test_site_down_for_a_day_loses_nothing(settings: Settings, site: Site) -> None:
    """Errors, and even 404 everywhere, keep every text while the root fails too."""
    site.three_pages()
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        for status in (500, 404):
            for path in ("/", "/a", "/b"):
                site.remove(path, status)

            run = await crawl_source(context, SID, CrawlMode.INCREMENTAL)

            assert counts(run)["failed"] == 3
            assert all([await text(context, site.url(path)) for path in ("/", "/a", "/b")])


async def test_too_great_a_loss_stops_and_asks(settings: Settings, site: Site) -> None:
    """Half of the pages gone at once is refused with a sentence; a person's yes lets them go."""
    site.page("/", links=[f"/p{n}" for n in range(10)])
    for n in range(10):
        site.page(f"/p{n}")
    async with crawl_context(settings, loss_limit_items=2, loss_limit_percent=20.0) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        for n in range(6):
            site.remove(f"/p{n}", 410)

        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        held = (await context.sources.details(SID))["held"]
        kept = [n for n in range(6) if await text(context, site.url(f"/p{n}"))]
        assert "python -m scripts.domain crawl docs --yes" in held
        assert len(kept) == 4
        await context.sources.losses.allow(SID, await connect.now(context.client) + 3600)
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        assert not any([await text(context, site.url(f"/p{n}")) for n in range(6)])


async def test_full_mode_reads_everything_anew(settings: Settings, site: Site) -> None:
    """No validators are sent, and what is equal is stored again without an event of change."""
    site.page("/", links=["/a"])
    site.page("/a")
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        site.forget_requests()

        run = await crawl_source(context, SID, CrawlMode.FULL)

        assert counts(run) == {"discovered": 2, "visited": 2, "unchanged": 2}
        assert not any("if-none-match" in seen.headers for seen in site.web.requests if seen.path in ("/", "/a"))
        record = await item(context, site.url("/a"))
        assert (record["reindexGeneration"], record["processedGeneration"]) == ("1", "1")
        assert record["reindexRequested"] == "false"


async def test_permanent_redirect_makes_an_alias(settings: Settings, site: Site) -> None:
    """The old name is an alias without a text, the new one has it; the new one is not fetched a second time."""
    site.page("/", links=["/old"])
    site.web.redirect("/old", "/new", 301)
    site.page("/new", "Moved here.")
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        old = await item(context, site.url("/old"))
        assert old["aliasOf"] == item_id(site.url("/new"))
        assert await text(context, site.url("/old")) == ""
        assert "Moved here." in await text(context, site.url("/new"))
        assert site.web.paths.count("/new") == 1


async def test_temporary_redirect_changes_no_name(settings: Settings, site: Site) -> None:
    """302: the text is stored under the name that was linked."""
    site.page("/", links=["/old"])
    site.web.redirect("/old", "/new", 302)
    site.page("/new", "For now.")
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        record = await item(context, site.url("/old"))
        assert record["aliasOf"] == ""
        assert "For now." in await text(context, site.url("/old"))
        assert json.loads(record["httpRedirectChain"]) == [site.url("/old")]


async def test_robots_are_respected(settings: Settings, site: Site) -> None:
    """A forbidden page is OutOfScope and is not asked for."""
    site.web.robots("User-agent: *\nDisallow: /secret")
    site.page("/", links=["/secret/a"])
    site.page("/secret/a")
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        record = await item(context, site.url("/secret/a"))
        assert (record["status"], record["httpRobotsAllowed"]) == ("OutOfScope", "false")
        assert "/secret/a" not in site.web.paths


async def test_depth_and_page_limits_hold(settings: Settings, site: Site) -> None:
    """Nothing deeper than max_depth and no more than max_pages."""
    for n in range(10):
        site.page(f"/p{n}", links=[f"/p{n + 1}", f"/q{n}"])
        site.page(f"/q{n}")
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/p0"), scope="host", max_depth=3, max_pages=6)
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        refs = await context.client.zrange(context.keys.refs(SID), 0, -1, withscores=True)
        assert len(refs) == 6
        assert max(score for _, score in refs) <= 3


async def test_sitemap_brings_pages_that_nothing_links(settings: Settings, site: Site) -> None:
    """They are visited, kept though no page leads to them, and a moved lastmod brings them back at once."""
    site.page("/")
    site.page("/hidden", "In the sitemap alone.")
    site.web.page("/sitemap.xml", _sitemap(site, "2026-01-01"), media_type="application/xml")
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        assert "In the sitemap alone." in await text(context, site.url("/hidden"))
        site.page("/hidden", "Corrected.")
        site.web.page("/sitemap.xml", _sitemap(site, "2026-02-02"), media_type="application/xml")

        run = await crawl_source(context, SID, CrawlMode.SCHEDULED)

        assert counts(run)["changed"] == 1
        assert "Corrected." in await text(context, site.url("/hidden"))


def _sitemap(site: Site, lastmod: str) -> str:
    return (
        '<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
        f"<url><loc>{site.url('/hidden')}</loc><lastmod>{lastmod}</lastmod></url></urlset>"
    )


async def test_false_304_is_found_and_the_host_distrusted(settings: Settings, site: Site) -> None:
    """A server that says 304 for ever is caught by the audit, counted, and asked for whole pages from then on."""
    site.page("/", links=["/liar"])
    site.web.lying_etag("/liar", _long("First."))
    async with crawl_context(settings, audit_every_checks=2) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        site.web.lying_etag("/liar", _long("Second."))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        assert "First." in await text(context, site.url("/liar"))

        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert "Second." in await text(context, site.url("/liar"))
        assert await context.client.hget(context.keys.trust("127.0.0.1"), "false_304") == "1"
        site.forget_requests()
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        assert "if-none-match" not in site.web.asked("/liar")[-1].headers


def _long(words: str) -> str:
    from tests.site import html

    return html("Liar", words)


async def test_page_of_two_sources_goes_with_the_last(settings: Settings, site: Site) -> None:
    """Fetched once for both; when one drops it, it stays; when both do, it goes."""
    site.page("/a/", links=["/a/x", "/shared"])
    site.page("/b/", links=["/shared"])
    site.page("/a/x")
    site.page("/shared", "Of both.")
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/a/"), scope="host", include=["/a/*", "/shared"])
        now = await connect.now(context.client)
        domain = parse_domain(
            json.dumps(
                {
                    "id": "two",
                    "web_sources": [
                        {"id": "b", "url": site.url("/b/"), "scope": "host", "include": ["/b/*", "/shared"]}
                    ],
                }
            ),
            "/",
        )
        for config in domain.sources():
            await context.sources.add(config, item_id(site.url("/b/")), now)
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        await crawl_source(context, "two.b", CrawlMode.INCREMENTAL)
        assert (await item(context, site.url("/shared")))["sources"] == "docs.site,two.b"
        site.page("/a/", "No more.", links=["/a/x"])
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        kept = await item(context, site.url("/shared"))
        assert (kept["sources"], kept["status"]) == ("two.b", "Crawled")
        site.page("/b/", "No more.")
        await crawl_source(context, "two.b", CrawlMode.INCREMENTAL)
        assert (await item(context, site.url("/shared")))["status"] == "Gone"
        assert await text(context, site.url("/shared")) == ""


async def test_narrower_scope_lets_go_of_what_it_had(settings: Settings, site: Site) -> None:
    """A page that the new configuration excludes leaves the source at the next crawl, though it is still linked."""
    site.three_pages()
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        await add_site(context, site.url("/"), exclude=["/b"])

        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert (await item(context, site.url("/b")))["status"] == "OutOfScope"
        assert await text(context, site.url("/a"))


async def test_noindex_is_respected(settings: Settings, site: Site) -> None:
    """By its meta tag: followed, and not kept."""
    site.page("/", links=["/a"])
    site.page("/a", links=["/b"], head='<meta name="robots" content="noindex">')
    site.page("/b")
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert (await item(context, site.url("/a")))["status"] == "OutOfScope"
        assert await text(context, site.url("/b"))


async def test_canonical_page_keeps_the_text(settings: Settings, site: Site) -> None:
    """A page that calls itself something else is an alias of that page, which nothing else has to link to."""
    site.page("/", links=["/x"])
    site.page("/x", "One text.", head=f'<link rel="canonical" href="{site.url("/real")}">')
    site.page("/real", "One text.", head=f'<link rel="canonical" href="{site.url("/real")}">')
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        for _ in range(2):
            await crawl_source(context, SID, CrawlMode.INCREMENTAL)

            assert (await item(context, site.url("/x")))["aliasOf"] == item_id(site.url("/real"))
            assert (await item(context, site.url("/real")))["status"] == "Crawled"
            assert "One text." in await text(context, site.url("/real"))


async def test_canonical_that_leads_nowhere_costs_no_text(settings: Settings, site: Site) -> None:
    """A page gives up its text only for a page that has one."""
    site.page("/", links=["/x"])
    site.page("/x", "One text.", head=f'<link rel="canonical" href="{site.url("/nowhere")}">')
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        for _ in range(2):
            await crawl_source(context, SID, CrawlMode.INCREMENTAL)

            assert "One text." in await text(context, site.url("/x"))


async def test_alias_is_checked_by_one_tiny_answer(settings: Settings, site: Site) -> None:
    """The old name is asked with the validators of the new one."""
    site.page("/", links=["/old"])
    site.web.redirect("/old", "/new", 301)
    site.page("/new", "Moved here.")
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        site.forget_requests()

        run = await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert all("if-none-match" in seen.headers for seen in site.web.asked("/new"))
        assert counts(run)["unchanged"] == 3
        assert (await item(context, site.url("/old")))["aliasOf"] == item_id(site.url("/new"))


async def test_stranger_in_a_due_set_is_struck_off(settings: Settings, site: Site) -> None:
    """What a source does not list is not visited for it, and does not come back."""
    site.page("/")
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await context.client.zadd(context.keys.due(SID), {"url_bogus": 0})
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert await context.client.zscore(context.keys.due(SID), "url_bogus") is None


async def test_shared_orphans_leave_one_source_together(settings: Settings, site: Site) -> None:
    """Several pages of two sources, dropped by one at once: each is unlisted, and no lease is left."""
    shared = [f"/s{n}" for n in range(4)]
    site.page("/a/", links=shared)
    site.page("/b/", links=shared)
    for path in shared:
        site.page(path)
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/a/"), scope="host", include=["/a/*", "/s*"])
        other = {"id": "b", "url": site.url("/b/"), "scope": "host", "include": ["/b/*", "/s*"]}
        for config in parse_domain(json.dumps({"id": "two", "web_sources": [other]}), "/").sources():
            await context.sources.add(config, item_id(site.url("/b/")), await connect.now(context.client))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        await crawl_source(context, "two.b", CrawlMode.INCREMENTAL)
        site.page("/a/", "No more.")

        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert [(await item(context, site.url(path)))["sources"] for path in shared] == ["two.b"] * 4
        assert [key async for key in context.client.scan_iter(context.keys.lease("*"))] == []


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
async def test_pages_are_told_in_sum(
    settings: Settings, site: Site, capsys: pytest.CaptureFixture[str], level: str
) -> None:
    """A run says what became of its pages in one line, that some failed in another, and where its report is; single
    pages at DEBUG only."""
    site.page("/", links=["/a", "/b", "/c", "/d"])
    for path in ("/a", "/b"):
        site.page(path)
    for path in ("/c", "/d"):
        site.remove(path, 500)
    async with crawl_context(settings, log_level=level) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

    lines = [line for line in capsys.readouterr().err.splitlines() if "DEBUG [refresh] ✓ State saved" not in line]
    named = {f"[refresh] ✅ Stored → {site.url(path)}" for path in ("/", "/a", "/b")}
    stored = {line.partition(" DEBUG ")[2] for line in lines if "Stored" in line}
    assert stored == (named if level == "DEBUG" else set())
    assert len([line for line in lines if "2 of" in line and "failed, for instance: HTTP 500 → " in line]) == 1
    assert len([line for line in lines if "🏁" in line and "3 changed" in line and "2 failed" in line]) == 1
    assert len([line for line in lines if "✓ State saved: 5 crawled, 0 queued" in line]) == 1
    assert len([line for line in lines if "[crawler] 🧾 Report → crawls/" in line]) == 1
    assert len(lines) == (4 if level == "INFO" else 4 + 5)
