"""One damaged record among healthy ones: it is put aside and named, and everything else goes on."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from redis.asyncio import Redis

from core import ids
from core.keys import Keys
from core.search.models import Query
from core.settings import Settings
from core.store import connect, field_types
from core.store.key_families import KeyFamilies, KeyFamily
from scripts import doctor, forget, search, status
from tests import commands
from tests.damage_scene import PAGES, SID, WORDS, Scene, open_scene

FAMILIES = [family for family in KeyFamilies(Keys()) if family.name not in ("quarantined", "done")]
HURT = ("ferry", "dredger")
"""The article and the page whose records are damaged."""
LISTS = {"feeds", "refs"}
"""Lists of which whole sources live: without them nothing of these is visited before the doctor came."""
NOT_THERE = {("feeds", "/news/barge")}
"""What nobody can know any more: which feeds there were."""
AT_ONCE = 14
"""Families that are damaged together, neighbours apart; with --full each is damaged alone."""
NOT_TEXT = b"\xff\xfe\x80 junk"
JUNK = ["abc", NOT_TEXT, "nan", "inf", "-inf", "9" * 400, "1e308", "-1", "{", '["a', "\x00\x1b[31m"]

Plant = Callable[[Redis, KeyFamily, str, Any], Awaitable[None]]


class Damage(NamedTuple):
    """How keys are damaged, and those of how many families at once."""

    plant: Plant
    at_once: int
    junk: Any = None


@pytest.fixture
async def scene(settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Scene]:
    async with open_scene(settings) as opened:
        adopted = {"EMBEDDER": "openai", "EMBED_API_URL": opened.settings.embed_api_url, "EMBED_MODEL": "first"}
        commands.adopt(monkeypatch, opened.settings, **adopted)
        yield opened


def id_for(scene: Scene, family: KeyFamily) -> Sequence[str]:
    """Which record of a family is damaged."""
    word, page = HURT
    item_id, uid = scene.page_id(page), scene.uid(word)
    by_name: dict[str, Sequence[str]] = {
        **dict.fromkeys(("article", "alias", "entry", "failure"), (uid,)),
        **dict.fromkeys(("category_links", "category_links_seen", "articles_by_category"), ("world",)),
        **dict.fromkeys(("feeds",), ("world",)),
        **dict.fromkeys(("feed", "feed_links"), (ids.feed_id(scene.feed),)),
        **dict.fromkeys(("source", "seen", "listed", "refused", "lost", "refs", "due"), (SID,)),
        **dict.fromkeys(("gate", "gate_line", "gate_busy", "trust", "partition"), ("127.0.0.1",)),
        "status": ("Indexed",),
        "domain": ("docs",),
        "feeds_imported": (str(scene.settings.feeds_file.resolve()),),
        "robots": (scene.web.url("").rstrip("/"),),
    }
    return by_name.get(family.name, (item_id,))


async def key_of(scene: Scene, family: KeyFamily) -> str:
    """A key of the family: of what is damaged, else any that is there, else one that nobody has made."""
    if family.is_one_key:
        return family.head
    named = getattr(scene.keys, family.name)
    guess = named(*id_for(scene, family)) if family.name != "embed_cache" else ""
    if guess and await scene.client.exists(guess):
        return guess
    there = sorted([key async for key in scene.client.scan_iter(f"{family.head}*") if family.has(key)])
    return next((key for key in there if scene.keys is not None and KeyFamilies(scene.keys).of(key) == family), guess)


async def of_another_type(raw: Redis, family: KeyFamily, key: str, _: Any) -> None:
    await raw.delete(key)
    if family.type == "string":
        await raw.hset(key, "a", "b")
    elif family.type == "hash":
        await raw.set(key, "a")
    else:
        await raw.rpush(key, "a")


async def with_junk(raw: Redis, family: KeyFamily, key: str, junk: Any) -> None:
    kinds = [name for name in field_types.KINDS.get(family.name, {}) if name != field_types.EVERY_FIELD]
    match family.type:
        case "hash":
            fields = [name.decode() for name in await raw.hkeys(key)]
            wrong = [*fields, NOT_TEXT] if isinstance(junk, bytes) else kinds or fields or ["field"]
            await raw.hset(key, mapping=dict.fromkeys(wrong, junk))
        case "set":
            await raw.sadd(key, junk)
        case "zset":
            await raw.zadd(key, {junk: 0.0, b"2" + NOT_TEXT: float("inf"), "": float("-inf")})
        case "string":
            await raw.set(key, junk)
        case "stream":
            await raw.xadd(key, {junk: junk, "id": junk, "type": "item.changed"})


async def everything_works(scene: Scene, capsys: pytest.CaptureFixture[str], names: set[str]) -> None:
    """Every worker and every script comes to its end, and what is healthy is there."""
    await scene.work()
    if not names & LISTS:
        assert await scene.found("barge") == ["/news/barge"]
        assert await scene.found("turbines") == ["/docs/dam"]
    await search.search(Query("otter"), as_json=False, explain=True)
    await status.status(as_json=False)
    await status.status(as_json=True)
    assert await doctor.doctor(fix=False, as_json=True) in (0, 1)
    assert await doctor.doctor(fix=True, as_json=True) in (0, 1)
    await scene.work()
    paths = [f"/news/{word}" for word in (*WORDS, "barge")] + [f"/docs/{word}" for word in PAGES]
    lost = {path for name, path in NOT_THERE if name in names}
    healthy = [path for path in paths if not path.endswith(HURT) and path not in lost]
    assert [path for path in healthy if await scene.found(path.rpartition("/")[2]) != [path]] == []
    assert await forget.forget(scene.link("heron"), dry_run=False) == 0
    assert await scene.found("heron") == []
    capsys.readouterr()


async def failures(scene: Scene, capsys: pytest.CaptureFixture[str], damage: Damage) -> list[str]:
    """Families whose damage stopped something, each with the reason."""
    raw, failed = connect.open_raw(scene.settings), []
    groups = math.ceil(len(FAMILIES) / damage.at_once)
    for families in (FAMILIES[first::groups] for first in range(groups)):
        await scene.restore()
        planted = {await key_of(scene, family): family for family in families}
        for key, family in planted.items():
            await damage.plant(raw, family, key, damage.junk)
        names = {family.name for family in families}
        try:
            await everything_works(scene, capsys, names)
            for key, family in planted.items():
                assert await scene.client.type(key) in ("none", family.type), key
        except Exception as error:  # noqa: BLE001 - whatever it is, the next families are tried too
            failed.append(f"{', '.join(sorted(names))} {damage.junk!r}: {error!r}")
    await raw.aclose()
    return failed


@pytest.mark.long
async def test_key_of_another_type_stops_nothing(scene: Scene, capsys: pytest.CaptureFixture[str], full: bool) -> None:
    """It is put aside with a line that names it; whoever needs it finds nothing there, and makes it anew."""
    assert await failures(scene, capsys, Damage(of_another_type, 1 if full else AT_ONCE)) == []
    aside = [name async for name in scene.client.scan_iter(f"{scene.keys.quarantined('')}*")]
    assert len(aside) == 1 if full else aside
    assert [name for name in aside if not await scene.client.zscore(scene.keys.quarantine, name)] == []


@pytest.mark.long
async def test_junk_stops_nothing(scene: Scene, capsys: pytest.CaptureFixture[str], full: bool) -> None:
    """No number, no date, no JSON, no text: what cannot be read counts as nothing."""
    for junk in JUNK if full else [NOT_TEXT, "nan"]:
        assert await failures(scene, capsys, Damage(with_junk, 1 if full else AT_ONCE, junk)) == []
