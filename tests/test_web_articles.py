"""Articles over HTTP."""

from __future__ import annotations

import pytest

from core.keys import Keys
from core.runtime.context import Context
from core.store.connect import Client
from tests.api import ApiServer
from tests.articles import NOW, ArticlePage, put_article
from tests.web import FakeWeb


async def test_newest_first_page_by_page(api: ApiServer, redis: Client, keys: Keys) -> None:
    """Pages follow each other without a gap or a repeat; filters narrow them down."""
    await redis.sadd(keys.categories, "world", "sport")
    uids = [await put_article(redis, keys, f"a{number}", NOW + number) for number in range(5)]
    other = await put_article(redis, keys, "b", NOW + 9, category="sport", language="de")
    seen, cursor = [], ""
    while True:
        page = (await api.get(f"/api/articles?category=world&limit=2&cursor={cursor}")).json
        seen += [one["uid"] for one in page["articles"]]
        cursor = page["cursor"]
        if not cursor:
            break
    german = (await api.get("/api/articles?language=de")).json["articles"]
    late = (await api.get(f"/api/articles?since={'2027-01-15T08:00:03Z'}&category=world")).json["articles"]

    assert seen == uids[::-1]
    assert [(one["uid"], one["category"], one["title"]) for one in german] == [(other, "sport", "b")]
    assert [one["uid"] for one in late] == [uids[4], uids[3]]


async def test_one_article_with_its_text(api: ApiServer, context: Context, web: FakeWeb) -> None:
    """The whole text with title, categories and how it was verified."""
    paper = ArticlePage(context, web)
    paper.write("As first reported.")
    await paper.store()
    answer = await api.get(f"/api/articles/{paper.uid}")

    assert answer.status == 200, answer.text
    told = answer.json
    assert "As first reported." in told["text"]
    assert (told["uid"], told["id"], told["url"]) == (paper.uid, paper.id, paper.url)
    assert (told["kind"], told["categories"], told["verified_by"]) == ("article", ["world"], "read")


@pytest.mark.parametrize(
    ("path", "status", "part"),
    [
        ("/api/articles?category=wrld", 404, "There is no category wrld."),
        ("/api/articles?cursor=nonsense", 422, "This cursor is not one that a list has returned"),
        ("/api/articles?since=yesterday", 422, "yesterday is not a date"),
        ("/api/articles?limit=0", 422, "limit"),
        ("/api/articles/0123456789abcdef", 404, "There is no article 0123456789abcdef."),
        ("/api/articles/nonsense", 404, "nonsense"),
    ],
)
async def test_bad_requests_are_sentences(api: ApiServer, path: str, status: int, part: str) -> None:
    """Each answers 4xx and says what is wrong."""
    answer = await api.get(path)

    assert answer.status == status, answer.text
    assert part in answer.error["message"]
