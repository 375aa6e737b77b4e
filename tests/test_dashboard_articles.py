"""Articles in the dashboard, over real HTTP: the list, the search, one article, what its buttons do."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator

import pytest

from core.keys import Keys
from core.runtime.context import Context
from core.settings import Settings
from core.store.connect import Client
from tests import hostile
from tests.api import ApiServer, api_server
from tests.articles import FULL, NOW, ArticlePage, put_article
from tests.form_client import PAGE, FormClient
from tests.search_site import Library, open_library
from tests.test_picture_fetch import PNG
from tests.web import FakeWeb
from workers.web.dashboard.views import articles as view

ATTACK = "<script>alert(1)</script>"


@pytest.fixture
async def desk(settings: Settings, redis: Client) -> AsyncIterator[ApiServer]:
    """A dashboard that may ask loopback."""
    async with api_server(settings.model_copy(update={"fetch_allowed_hosts": ("127.0.0.0/8",)})) as running:
        yield running


@pytest.fixture
async def library(settings: Settings) -> AsyncIterator[Library]:
    pages = {"/weir": f"The weir {html.escape(ATTACK)} was repaired.", "/lock": "The lock is closed."}
    async with open_library(settings, pages) as opened:
        await opened.embed()
        yield opened


def titles(text: str) -> list[str]:
    return [html.unescape(re.sub(r"<[^>]+>", "", found)) for found in re.findall(r"<h2>(<a .*?)</h2>", text)]


async def page(api: ApiServer, path: str, **options: object) -> str:
    answer = await api.get(path, headers=PAGE, **options)
    assert answer.status == 200, answer.text
    return answer.text


# ── the list ──


async def test_newest_first_page_by_page(
    api: ApiServer, redis: Client, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages follow each other without a gap; filters narrow them down and stay in the links."""
    monkeypatch.setattr(view, "PER_PAGE", 2)
    await redis.sadd(keys.categories, "world", "sport")
    for number in range(5):
        await put_article(redis, keys, f"a{number}", NOW + number, abstract="Short.", host="www.e.org")
    await put_article(redis, keys, "b", NOW + 9, category="sport", language="de")
    first = await page(api, "/articles?category=world")
    older = html.unescape(re.search(r'<a href="([^"]+)" rel="next">', first)[1])
    second = await page(api, older)

    assert (titles(first), titles(second)) == (["a4", "a3"], ["a2", "a1"])
    assert "category=world" in older
    assert "Short." in first
    assert "← Newest" in second
    assert titles(await page(api, "/articles?language=de&category=&since=")) == ["b"]
    assert "No article fits" in await page(api, "/articles?language=fr")
    assert "There are no articles yet" not in first


async def test_rare_articles_of_many_are_looked_for_further(
    api: ApiServer, redis: Client, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A view reads only so many articles; then it says so, and its link goes on from there."""
    monkeypatch.setattr(view, "MOST_READ", 3)
    monkeypatch.setattr(view, "PER_PAGE", 2)
    for number in range(8):
        await put_article(redis, keys, f"a{number}", NOW - number, language="fr" if number == 5 else "en")
    first = await page(api, "/articles?language=fr")
    further = html.unescape(re.search(r'<a href="([^"]+)" rel="next">Look further', first)[1])

    assert "None of the newest articles fits" in first
    assert titles(await page(api, further)) == ["a5"]


@pytest.mark.parametrize(
    ("path", "status", "part"),
    [
        ("/articles?category=wrld", 404, "There is no category wrld."),
        ("/articles?cursor=nonsense", 422, "This cursor is not one"),
        ("/articles?since=yesterday", 422, "yesterday is not a date"),
        ("/articles?nonsense=1", 422, "no parameter nonsense"),
        ("/articles/0123456789abcdef", 404, "There is nothing stored under 0123456789abcdef."),
        ("/items/url_nothing", 404, "There is nothing stored under url_nothing."),
        ("/items/..%2f..", 404, "There is nothing at"),
    ],
)
async def test_mistakes_are_pages_with_a_sentence(api: ApiServer, path: str, status: int, part: str) -> None:
    """Never a blank page, never a trace."""
    answer = await api.get(path, headers=PAGE)

    assert (answer.status, part in html.unescape(answer.text)) == (status, True), answer.text


# ── the search ──


async def test_search_marks_words_and_says_how_each_hit_was_verified(library: Library) -> None:
    """Highlights are elements, everything else is text; explain says what the order is made of."""
    async with api_server(library.settings) as api:
        text = await page(api, "/articles?q=weir+repaired&explain=true&category=&domain=docs")
        nothing = await page(api, "/articles?q=zebra&domain=docs&language=xx")

    assert "<mark>weir</mark>" in text
    assert "alert(1)" in text
    assert ATTACK not in text
    assert "verified" in text
    assert "by reading it" in text
    assert re.search(r"Score [\d.]+ · words [\d.]+ of 1\s+· meaning [\d.]+ of 1", text)
    assert "domain docs" in text
    assert "Nothing found" in nothing
    assert "search without filters" in nothing


async def test_embedder_that_is_away_is_told_and_words_work(library: Library) -> None:
    """A sentence, and the page is found all the same."""
    async with api_server(library.with_(embed_api_url="http://127.0.0.1:9")) as api:
        text = await page(api, "/articles?q=lock+closed")

    assert "Searched by words (" in text
    assert "<mark>lock</mark>" in text


# ── one article ──


async def test_article_with_text_and_provenance(desk: ApiServer, context: Context, web: FakeWeb) -> None:
    """Title, address, text, feed, category, status, proof, versions; under its uid and under its item's id."""
    paper = ArticlePage(context, web)
    paper.write("As first reported.")
    await paper.store()
    paper.write("As corrected.")
    await paper.visit()
    text = await page(desk, f"/articles/{paper.uid}")

    assert "<h1>Lock gates reopen</h1>" in text
    assert "As corrected." in text
    assert f'href="{paper.url}" rel="noreferrer noopener nofollow"' in text
    for part in ("by reading it", "Crawled", "Next check", "waiting for vectors", ">world</a>", "characters"):
        assert part in text, part
    assert text.count("characters</span>") == 3
    assert "/why?url=http%3A//127.0.0.1" in text
    assert "<h1>Lock gates reopen</h1>" in await page(desk, f"/items/{paper.id}")


async def test_same_text_elsewhere_is_named_on_both_sides(desk: ApiServer, context: Context, web: FakeWeb) -> None:
    """The copy names the first, the first names its copies; a copy that is forgotten is named no more."""
    first, copy = ArticlePage(context, web, "/a"), ArticlePage(context, web, "/b")
    for paper in (first, copy):
        paper.write("Word for word.")
        await paper.store()
    told = (await desk.get(f"/api/items/{first.id}")).json["same_text"]
    on_first, on_copy = [await page(desk, f"/articles/{paper.uid}") for paper in (first, copy)]
    async with FormClient(desk) as person:
        await person.submit("/login", f"/items/{copy.id}/forget", back="/articles")

    assert told == [{"uid": copy.uid, "url": copy.url, "title": "Lock gates reopen", "is_first": False}]
    assert f'href="/articles/{copy.uid}"' in on_first
    assert f'href="/articles/{first.uid}"' in on_copy
    assert "had it first" in on_copy
    assert (await desk.get(f"/api/items/{first.id}")).json["same_text"] == []
    assert not await context.client.exists(context.keys.duplicates(first.uid))


async def test_record_that_lacks_fields_is_shown(desk: ApiServer, context: Context) -> None:
    """Whatever was lost of a record, its page says what is left."""
    await context.client.hset(context.keys.item("url_bare"), mapping={"id": "url_bare", "status": "Error"})
    text = await page(desk, "/items/url_bare")

    assert "No text is stored" in text
    assert "url_bare" in text


async def test_hostile_values_are_text(desk: ApiServer, context: Context, web: FakeWeb) -> None:
    """A title that is a script, a link that is one, bytes that are no UTF-8: shown, and nothing more."""
    paper = ArticlePage(context, web)
    paper.write("Harmless.", head=f'<meta name="author" content="{html.escape(ATTACK)}">')
    await paper.store()
    key = context.keys.article(paper.uid)
    damage = {"title": ATTACK, "feed": "javascript:alert(2)", "final_url": "data:text/html,x", "image": "javascript:x"}
    await context.client.hset(key, mapping=damage)
    await context.client.hset(key, "abstract", b"\xff\xfe broken")
    await context.client.sadd(context.keys.aliases(paper.uid), "javascript:alert(3)")
    for path in (f"/articles/{paper.uid}", "/articles"):
        text = await page(desk, path)

        assert html.escape(ATTACK) in text
        assert ATTACK not in text
        assert not re.search(r'(?:href|src)="(?:javascript|data):', text)
        assert "Show picture" not in text


@hostile.needed
@pytest.mark.parametrize(
    "row", [row for row in hostile.rows("bodies.jsonl", "html") if row.values[0]["expected"] == "escaped"]
)
async def test_hostile_pages_are_escaped(
    desk: ApiServer, context: Context, web: FakeWeb, row: dict[str, object]
) -> None:
    """Of the shared collection: whatever breaks out of an attribute elsewhere stays text here."""
    paper = ArticlePage(context, web)
    web.page(paper.path, hostile.maker()(row["gen"]).replace(b"</body>", f"{FULL}</body>".encode()))
    await paper.store()
    title = (await paper.hash())["title"]
    for path in ("/articles", f"/articles/{paper.uid}"):
        text = await page(desk, path)

        assert html.escape(title) in text.replace("&#34;", "&quot;")
        assert not re.search(r"<[^>]*\sonmouseover=", text)


async def test_picture_is_asked_for_only_on_request(desk: ApiServer, context: Context, web: FakeWeb) -> None:
    """No request before; then one by the server, sent on with the type of its bytes and kept by the browser."""
    paper = ArticlePage(context, web)
    paper.write("With a picture.", head=f'<meta property="og:image" content="{web.url("/lead.png")}">')
    web.page("/lead.png", PNG, media_type="image/png")
    await paper.store()
    plain = await page(desk, f"/articles/{paper.uid}")
    shown = await page(desk, f"/articles/{paper.uid}?picture=true")
    before = web.asked("/lead.png")
    async with desk.session.get(f"{desk.url}/items/{paper.uid}/picture") as reply:
        body, headers = await reply.read(), reply.headers
    web.page("/lead.png", "<svg/>", media_type="image/svg+xml")
    svg = await desk.get(f"/items/{paper.uid}/picture")

    assert ("Show picture" in plain, '/picture"' in plain, '/picture"' in shown) == (True, False, True)
    assert before == []
    assert (body, headers["Content-Type"], headers["X-Content-Type-Options"]) == (PNG, "image/png", "nosniff")
    assert headers["Cache-Control"] == "private, max-age=3600"
    assert (svg.status, svg.error["code"]) == (404, "no_picture")


async def test_diff_is_shown_where_texts_are_kept(settings: Settings, redis: Client, web: FakeWeb) -> None:
    """Removed and added words are marked; without a kept text the page says why there is none."""
    changed = settings.model_copy(update={"fetch_allowed_hosts": ("127.0.0.0/8",), "snapshot_days": 1.0})
    async with api_server(changed) as desk:
        paper = ArticlePage(desk.opener.require().context, web)
        paper.write("Built in 1880.")
        await paper.store()
        paper.write("Built in 1881.")
        await paper.visit()
        text = await page(desk, f"/articles/{paper.uid}")
        path = html.unescape(re.search(r'<a href="(\?older=[^"#]+)#diff">', text)[1])
        diff = await page(desk, f"/articles/{paper.uid}{path}")
        none = await page(desk, f"/articles/{paper.uid}?older=0123")

    assert "<b>1880</b>" in diff
    assert "<b>1881</b>" in diff
    assert "There is no text of version 0123. Texts of earlier versions are kept for SNAPSHOT_DAYS" in none


async def test_buttons_check_read_again_and_forget(desk: ApiServer, context: Context, web: FakeWeb) -> None:
    """Each leads back with a sentence; what was forgotten is gone with everything."""
    paper = ArticlePage(context, web)
    paper.write("As first reported.")
    await paper.store()
    here = f"/articles/{paper.uid}"
    async with FormClient(desk) as person:
        checked = await person.submit(here, f"/items/{paper.id}/check", back=here)
        forced = await person.submit(here, f"/items/{paper.id}/check", back=here, force="true")
        generation = (await paper.item())["reindexGeneration"]
        forgotten = await person.submit(here, f"/items/{paper.id}/forget", back=here)
        again = await person.submit("/login", f"/items/{paper.id}/forget", back="/articles")

    assert (checked[1], "It is checked now" in checked[2]) == (here, True)
    assert "It is read again now" in forced[2]
    assert generation == "1"
    assert (forgotten[1], "It is forgotten" in forgotten[2]) == ("/articles", True)
    assert not await paper.hash()
    assert not await paper.item()
    assert "notice failed" in again[2]


async def test_facts_are_drawn_again_without_the_text(desk: ApiServer, context: Context, web: FakeWeb) -> None:
    """The live part asks for the same page; the text is not rendered for it."""
    paper = ArticlePage(context, web)
    paper.write("As first reported.")
    await paper.store()
    answer = await desk.get(f"/articles/{paper.uid}", headers={**PAGE, "HX-Request": "true", "HX-Target": "facts"})

    assert 'id="facts"' in answer.text
    assert "As first reported." not in answer.text
