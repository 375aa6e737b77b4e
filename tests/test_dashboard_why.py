"""The pages Why? and Doctor, over real HTTP."""

from __future__ import annotations

import pytest

from core.keys import Keys
from core.store import connect
from tests.api import ApiServer
from tests.form_client import PAGE, FormClient


async def test_why_explains_a_url_that_nobody_knows(api: ApiServer) -> None:
    """Stations in order, the one that decides is marked, and nothing is written."""
    before = await api.opener.require().client.dbsize()
    answer = await api.get("/why", params={"url": "http://example.org/nobody-knows"}, headers=PAGE)

    assert answer.status == 200
    assert answer.text.count('class="station ') > 5
    assert answer.text.count('aria-current="step"') == 1
    assert await api.opener.require().client.dbsize() == before


@pytest.mark.parametrize(
    "url", ["<script>alert(1)</script>", "javascript:alert(1)", "data:text/html,x", "\udc80", "x" * 7_000]
)
async def test_why_shows_hostile_input_as_text(api: ApiServer, url: str) -> None:
    """Whatever is pasted is text: no element, no link."""
    answer = await api.get("/why", params={"url": url.encode(errors="surrogateescape").decode("latin-1")}, headers=PAGE)

    assert answer.status == 200
    assert "<script>alert" not in answer.text
    assert 'href="javascript:' not in answer.text
    assert 'href="data:' not in answer.text


async def test_doctor_finds_and_repairs(api: ApiServer, redis: connect.Client, keys: Keys) -> None:
    """A damaged key is found by a check, which changes nothing; the button puts it aside, and the page names it."""
    damaged = keys.robots("http://example.org")
    await redis.set(damaged, "no hash")
    async with FormClient(api) as person:
        _, _, found = await person.ask("GET", "/doctor?check=true")
        is_still_there = await redis.get(damaged)
        status, path, repaired = await person.submit("/doctor", "/doctor/repair")

    assert "a key that is of another type than it should be" in found
    assert is_still_there == "no hash"
    assert (status, path) == (200, "/doctor?check=true")
    assert "found and repaired" in repaired
    assert repaired.count(damaged) == 1
    assert not await redis.exists(damaged)


async def test_why_reads_again(api: ApiServer) -> None:
    """The button says so when nothing is known under the name."""
    async with FormClient(api) as person:
        _, path, text = await person.submit("/login", "/why/read-again", url="http://example.org/x", back="/why")

    assert path == "/why"
    assert "notice" in text
