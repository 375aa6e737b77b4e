"""A root that leads elsewhere: the scope follows it where that is safe, says so, and loses nothing by it."""

from __future__ import annotations

import pytest

from core.registry.io.periodic_cleanup import Purger
from core.runtime.context import Context
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.store import connect
from core.urls.scope import Scope
from tests.crawled_site import SID, add_site, crawl_context, item, text
from tests.site import Site


def tree(site: Site, root: str, *names: str) -> None:
    """A version of a guide: a first page that links to the others."""
    site.page(root, f"Guide at {root}", links=[f"{root.rstrip('/')}/{name}" for name in names])
    for name in names:
        site.page(f"{root.rstrip('/')}/{name}", f"{name} of {root}", links=[root])


async def texts(context: Context, site: Site, *paths: str) -> list[bool]:
    return [bool(await text(context, site.url(path))) for path in paths]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_scope_follows_the_root(
    settings: Settings, site: Site, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a guide that has moved to its next version the whole new tree is read at once, and the run says why."""
    tree(site, "/v2.0/guide", "a", "b")
    site.web.redirect("/v1.0/guide", "/v2.0/guide", status)
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/v1.0/guide"))

        run = await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert await texts(context, site, "/v2.0/guide/a", "/v2.0/guide/b") == [True, True]
        assert run["status"] == "succeeded"
        assert "/v2.0/guide now, and the scope follows it" in run["message"]
        assert "the scope follows it" in capsys.readouterr().err


@pytest.mark.parametrize("status", [301, 302])
async def test_old_tree_is_not_lost(settings: Settings, site: Site, status: int) -> None:
    """Pages of the old version stay as long as they answer, pass for pass; one that is gone goes."""
    tree(site, "/v1.0/guide", "a", "b")
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/v1.0/guide"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        tree(site, "/v2.0/guide", "a", "c")
        site.web.redirect("/v1.0/guide", "/v2.0/guide", status)

        for _ in range(3):
            await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert await texts(context, site, "/v2.0/guide/a", "/v2.0/guide/c") == [True, True]
        assert await texts(context, site, "/v1.0/guide/a", "/v1.0/guide/b") == [True, True]
        site.remove("/v1.0/guide/b", 410)
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        assert await texts(context, site, "/v1.0/guide/a", "/v1.0/guide/b") == [True, False]


async def test_root_that_moves_again_and_again(settings: Settings, site: Site) -> None:
    """Each version is read and stays while it answers; a person's yes lets go of what nothing leads to."""
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/stable/"))
        for version in ("/1.2", "/1.3", "/1.4"):
            tree(site, f"{version}/", "a")
            site.web.redirect("/stable/", f"{version}/")
            await crawl_source(context, SID, CrawlMode.INCREMENTAL)
            await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert await texts(context, site, "/1.2/a", "/1.3/a", "/1.4/a") == [True, True, True]
        await context.sources.losses.allow(SID, await connect.now(context.client) + 3600)
        site.page("/1.4/", "Guide", links=["/1.4/a", "/1.4/b"])
        site.page("/1.4/b", "New.")
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        assert await texts(context, site, "/1.2/a", "/1.3/a", "/1.4/a", "/1.4/b") == [False, False, True, True]


async def test_redirect_that_ends_brings_the_scope_back(settings: Settings, site: Site) -> None:
    """A root that answers for itself again leads to its own tree, and what it led to meanwhile stays."""
    tree(site, "/docs/", "a")
    tree(site, "/maintenance/", "soon")
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/docs/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        site.web.redirect("/docs/", "/maintenance/")
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        site.page("/docs/", "Back again", links=["/docs/a", "/docs/b"])
        site.page("/docs/b", "New.")

        await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert await texts(context, site, "/docs/a", "/docs/b", "/maintenance/soon") == [True, True, True]


async def test_scope_does_not_follow_into_a_login(settings: Settings, site: Site) -> None:
    """All pages lead to a login for a while: the visits fail, the scope stays, and no page is lost."""
    tree(site, "/p/", "a", "b")
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/p/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        site.page("/login", "Please log in.", links=["/login/help"])
        for path in ("/p/", "/p/a", "/p/b"):
            site.web.redirect(path, f"/login?next={path}")

        run = await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert "the scope follows" not in run["message"]
        assert (await context.sources.details(SID)).get("notes", "{}") == "{}"
        assert await texts(context, site, "/p/", "/p/a", "/p/b", "/login/help") == [True, True, True, False]


@pytest.mark.parametrize("notice", ["/maintenance/sorry", "/errors/sorry.html"])
async def test_scope_does_not_follow_to_a_notice(settings: Settings, site: Site, notice: str) -> None:
    """A root that shows a notice for a while keeps its own text, scope and pages; the run says where it leads."""
    tree(site, "/docs/", "a", "b")
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/docs/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        site.page(notice, "We are back soon.", links=["/contact", "/"])
        site.web.redirect("/docs/", notice)

        for _ in range(2):
            run = await crawl_source(context, SID, CrawlMode.INCREMENTAL)

            assert "does not look like the place itself" in run["message"]
            assert await texts(context, site, "/docs/a", "/docs/b") == [True, True]
            assert "Guide at /docs/" in await text(context, site.url("/docs/"))
        tree(site, "/docs/", "a", "c")
        run = await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        assert (run["status"], run["message"]) == ("succeeded", "")
        assert await texts(context, site, "/docs/a", "/docs/b", "/docs/c") == [True, False, True]


async def test_words_about_the_root_are_true(settings: Settings, site: Site) -> None:
    """Of pages that stay is spoken only where there are some, and a root that is back is said to be back."""
    tree(site, "/1.2/", "a")
    site.web.redirect("/stable/", "/1.2/")
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/stable/"))
        first = await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        again = await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        tree(site, "/stable/", "b")
        back = await crawl_source(context, SID, CrawlMode.INCREMENTAL)

    assert first["message"].endswith("/1.2/ now, and the scope follows it")
    assert again["message"] == ""
    assert back["message"].startswith("the root answers at its own address again; pages of")
    assert "the scope follows" not in back["message"]


@pytest.mark.parametrize(
    ("root", "kind", "to", "links", "is_like"),
    [
        ("/v1.0/guide", "subpages", "/v2.0/guide", (), True),
        ("/stable/", "subpages", "/1.2/", ("/1.2/a",), True),
        ("/stable", "subpages", "/1.2", ("/1.2/a",), True),
        ("/stable/", "subpages", "/1.2/index.html", ("/1.2/a",), True),
        ("/stable/", "subpages", "/1.2/", ("/1.2/", "/contact"), False),
        ("/docs/", "subpages", "/maintenance/sorry", ("/maintenance/", "/"), False),
        ("/docs/", "subpages", "/maintenance/sorry.html", ("/maintenance/status",), False),
        ("/", "subpages", "//www.e.org/home.html", (), True),
        ("/", "host", "//www.e.org/home.html", ("//www.e.org/a",), True),
        ("/", "host", "//sorry.e.org/", ("//e.org/",), True),
        ("/a/", "host", "//sorry.e.org/x", ("//e.org/",), False),
    ],
)
def test_what_looks_like_the_root(root: str, kind: str, to: str, links: tuple[str, ...], is_like: bool) -> None:
    """The same folder or last name, or a folder with pages of its own."""
    named = [link if link.startswith("//") else f"//e.org{link}" for link in (root, to, *links)]
    first, there, *found = (f"https:{link}" for link in named)
    assert Scope(first, kind).resembles_root(there, found) is is_like


@pytest.mark.parametrize(
    ("root", "to", "why"),
    [("/docs/guide/", "/", "above what it covers"), ("/docs/guide/", "/docs/", "above what it covers")],
)
async def test_scope_grows_to_nothing_above_it(settings: Settings, site: Site, root: str, to: str, why: str) -> None:
    """A section that is sent to the front page does not make the whole site part of the source; the run says so."""
    site.page(to, "Front page", links=["/shop/1", f"{to}other"])
    site.page("/shop/1")
    site.page(f"{to}other")
    site.web.redirect(root, to)
    async with crawl_context(settings) as context:
        await add_site(context, site.url(root))

        run = await crawl_source(context, SID, CrawlMode.INCREMENTAL)

        assert why in run["message"]
        assert await texts(context, site, "/shop/1", f"{to}other") == [False, False]


@pytest.mark.parametrize(
    ("root", "kind", "to", "why"),
    [
        ("https://e.org/a/", "subpages", "https://evil.org/a/", "another domain"),
        ("https://e.org/a/", "domain", "https://evil.org/", "another domain"),
        ("https://e.org/a/", "subpages", "https://e.org:8443/b/", "another domain"),
        ("https://e.org/a/", "subpages", "https://www.e.org/", "above what it covers"),
        ("https://e.org/a/", "subpages", "https://www.e.org/a/", ""),
        ("https://e.org/", "subpages", "https://www.e.org/", ""),
        ("http://e.org/a/", "host", "https://docs.e.org/", ""),
        ("http://e.org/v1.0/guide", "subpages", "https://e.org/v2.0/guide", ""),
        ("https://someone.github.io/a/", "subpages", "https://other.github.io/a/", "another domain"),
    ],
)
def test_where_a_scope_follows(root: str, kind: str, to: str, why: str) -> None:
    """Within its registrable domain and not above its own folder."""
    assert Scope(root, kind).landing_rejection_reason(to) == why


def test_scope_after_a_landing() -> None:
    """Root and present place are covered; what lies between is former, and admits nothing new."""
    scope = Scope("https://e.org/stable/").with_landing("https://e.org/1.2/").with_landing("https://e.org/1.3/")

    said = {path: scope.rejection_reason(f"https://e.org{path}", 1) for path in ("/stable/x", "/1.2/x", "/1.3/x", "/x")}
    assert said == {"/stable/x": "", "/1.2/x": "outside subpages", "/1.3/x": "", "/x": "outside subpages"}
    former = {path: scope.is_in_former_landing(f"https://e.org{path}") for path in said}
    assert former == {"/stable/x": True, "/1.2/x": True, "/1.3/x": False, "/x": False}


async def test_purged_page_that_comes_back_is_found(settings: Settings, site: Site) -> None:
    """Though the page that links to it answers 304 all the time."""
    site.page("/", links=["/a"])
    site.page("/a", "Here.")
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        site.remove("/a", 410)
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        now = await connect.now(context.client)
        assert await Purger(context.client, context.keys, 100).run(now + 200) == 1
        assert await item(context, site.url("/a")) == {}
        site.page("/a", "Here again.")

        await crawl_source(context, SID, CrawlMode.SCHEDULED)

        assert "Here again." in await text(context, site.url("/a"))
