"""Failed links: the page, the API, and another try for one, a code or a host."""

from __future__ import annotations

import pytest

from core import ids
from core.errors import FailCode, FailDetail
from core.feeds.io import failure_list
from core.feeds.io.failure_list import FailureFilter, FailureList
from core.feeds.io.link_store import Ttls
from core.feeds.io.links_to_fetch import LinkFinder
from core.keys import Keys
from core.models import Failed, Link
from core.registry.io.article_store import ArticleStore
from core.settings import Settings
from core.store import connect
from core.store.connect import Client
from core.store.leases import Leases
from tests.api import ApiServer
from tests.form_client import PAGE, FormClient


async def fail(redis: Client, keys: Keys, settings: Settings, url: str, code: FailCode, **more: object) -> str:
    """Record a failure as a visit does; return the uid."""
    now = await connect.now(redis)
    uid, retry_at = ids.article_uid(url), more.pop("retry_at", None)
    text = str(more.pop("text", "It did not work."))
    failed = Failed(code, FailDetail.STATUS if code is FailCode.HTTP else FailDetail.NONE, text, **more)
    link = Link(uid=uid, url=url, categories=("world",))
    commands = ArticleStore(redis, keys, Ttls.of(settings)).fail(link, failed, 2, retry_at, now)
    await Leases(redis, keys).run(commands)
    return uid


@pytest.fixture
async def three(redis: Client, keys: Keys, settings: Settings) -> list[str]:
    """Two timeouts and a 500, on two hosts."""
    later = await connect.now(redis) + 9_000
    return [
        await fail(redis, keys, settings, "http://a.org/1", FailCode.TIMEOUT, retry_at=later),
        await fail(redis, keys, settings, "http://a.org/2", FailCode.TIMEOUT),
        await fail(redis, keys, settings, "http://b.org/3", FailCode.HTTP, http_status=500),
    ]


async def due(redis: Client, keys: Keys, settings: Settings) -> list[str]:
    """The links that the next run of the canonical fetcher would find."""
    now = await connect.now(redis)
    return sorted((await LinkFinder(redis, keys).find(["world"], now)).links)


async def test_page_shows_codes_hosts_and_reasons(api: ApiServer, three: list[str]) -> None:
    """Counts by code and host, the largest first; each link with its reason, tries, next try and its trail."""
    page = (await api.get("/failures", headers=PAGE)).text
    of_host = (await api.get("/failures?host=b.org&code=", headers=PAGE)).text
    nothing = (await api.get("/failures?code=FAIL_EMPTY", headers=PAGE)).text

    assert page.index("FAIL_TIMEOUT") < page.index("FAIL_HTTP")
    assert page.index("?host=a.org") < page.index("?host=b.org")
    for part in (
        "FAIL_HTTP/status · HTTP 500",
        "It did not work.",
        "not by itself",
        "in 2 h",
        "/why?url=http%3A%2F%2Fa.org",
    ):
        assert part in page, part
    assert ("http://b.org/3" in of_host, "http://a.org/1" in of_host) == (True, False)
    assert "No failure is like this" in nothing


async def test_empty_page_says_so(api: ApiServer) -> None:
    """Without failures there is a sentence."""
    assert "Nothing has failed" in (await api.get("/failures", headers=PAGE)).text


@pytest.mark.parametrize(
    ("fields", "links"),
    [
        ({"code": "FAIL_TIMEOUT"}, ["http://a.org/1", "http://a.org/2"]),
        ({"host": "b.org"}, ["http://b.org/3"]),
        ({"uid": ids.article_uid("http://a.org/2")}, ["http://a.org/2"]),
    ],
)
async def test_links_are_tried_again(
    api: ApiServer,
    three: list[str],
    redis: Client,
    keys: Keys,
    settings: Settings,
    fields: dict[str, str],
    links: list[str],
) -> None:
    """All of a code, all of a host, or one: the next run finds them, and no others."""
    before = await due(redis, keys, settings)
    async with FormClient(api) as person:
        _, path, page = await person.submit("/failures", "/failures/retry", back="/failures", **fields)
    after = await due(redis, keys, settings)

    assert (before, after) == ([], links)
    assert (path, f"tries again: {len(links)} link" in page, "next run<" in page) == ("/failures", True, True)


async def test_api_lists_and_retries(api: ApiServer, three: list[str]) -> None:
    """The same over HTTP: pages, counts, and sentences for what cannot be."""
    first = (await api.get("/api/failures?limit=2")).json
    rest = (await api.get(f"/api/failures?limit=2&offset={first['next_offset']}")).json
    retried = await api.post("/api/failures/retry", json={"host": "a.org"})

    assert (first["total"], first["codes"], first["hosts"]) == (
        3,
        {"FAIL_TIMEOUT": 2, "FAIL_HTTP": 1},
        {"a.org": 2, "b.org": 1},
    )
    assert [one["uid"] for one in first["failures"] + rest["failures"]] == three[::-1]
    assert rest["next_offset"] is None
    assert retried.json == {"links": 2}
    for body, status in (({}, 422), ({"uid": "x"}, 422), ({"host": "c.org"}, 404), ({"uid": "0" * 16}, 404)):
        assert (await api.post("/api/failures/retry", json=body)).status == status, body


async def test_counts_are_of_the_newest(
    redis: Client, keys: Keys, settings: Settings, three: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are, so many are looked at; another try reaches all of them, the oldest first."""
    monkeypatch.setattr(failure_list, "MOST_LOOKED_AT", 2)
    failures = FailureList(redis, keys)
    page = await failures.page(FailureFilter(), 10)
    monkeypatch.setattr(failure_list, "MOST_RETRIED", 1)
    count = await failures.retry(FailureFilter("FAIL_TIMEOUT"))

    assert (page.total, page.looked_at, [one.uid for one in page.failures]) == (3, 2, three[:0:-1])
    assert (count, await due(redis, keys, settings)) == (1, ["http://a.org/1"])


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "javascript:alert(1)", "\udc80"])
async def test_hostile_failures_are_text(
    api: ApiServer, redis: Client, keys: Keys, settings: Settings, text: str
) -> None:
    """URLs, hosts, codes and sentences of the store are text."""
    uid = await fail(redis, keys, settings, "http://a.org/1", FailCode.HTTP, text=text)
    await redis.hset(keys.failure(uid), mapping={"url": text, "code": text, "detail": text})
    await redis.zadd(keys.failures, {f"{uid}:{text}": 1})
    for path in ("/failures", "/failures?code=%3Cscript%3Ealert(1)%3C/script%3E&host=javascript:alert(1)"):
        answer = await api.get(path, headers=PAGE)

        assert answer.status == 200
        assert "<script>alert" not in answer.text
        assert 'href="javascript:' not in answer.text
