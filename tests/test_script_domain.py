"""`python -m scripts.domain`: add, list, crawl, report, remove."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core import ids
from core.errors import FreshetError
from core.keys import Keys
from core.models import Ref
from core.registry.io.registrar import Listing, Registrar
from core.settings import Settings
from core.sources.io.crawl import CrawlMode
from core.store.connect import Client
from core.store.leases import Leases
from core.urls.normalise import normalise_url
from scripts import domain, domain_crawl, domain_report
from tests import commands
from tests.site import FILLER, Site
from tests.web import FakeWeb

pytestmark = pytest.mark.usefixtures("adopted")


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """A site with a root and two pages."""
    async with FakeWeb() as web:
        made = Site(web)
        made.three_pages()
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two documents."""
    made = tmp_path / "notes"
    made.mkdir()
    for name in ("one", "two"):
        write(made / f"{name}.md")
    return made


def write(path: Path, text: str = "") -> None:
    """A document that is old enough to be known by its time and size."""
    path.write_text(f"# {path.stem}\n\n{FILLER} {path.stem}\n{text}")
    os.utime(path, (1_700_000_000, 1_700_000_000 + len(text)))


def empty(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def write_domain(folder: Path, **fields: object) -> str:
    path = folder / "domain.json"
    path.write_text(json.dumps(fields))
    return str(path)


def start(settings: Settings, *command: str) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME"}}
    return subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=commands.ROOT,
        env=kept | commands.environment(settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def item_of(url: str) -> str:
    return ids.item_id("url", normalise_url(url))


# ── add ─────────────────────────────────────────────────────────────────────────────────────────


async def test_a_site_is_added_by_its_address(
    site: Site, redis: Client, keys: Keys, capsys: pytest.CaptureFixture[str]
) -> None:
    """One word is enough: its root is registered and due, and the next command is told."""
    assert await domain.add(site.url(), "docs") == 0
    (sid,) = await redis.smembers(keys.sources)

    assert await redis.zrange(keys.due(sid), 0, -1) == [item_of(site.url())]
    assert await redis.hget(keys.source(sid), "root_id") == item_of(site.url())
    assert "python -m scripts.domain crawl docs" in capsys.readouterr().out


async def test_a_folder_is_added_by_its_path(
    folder: Path, redis: Client, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path is seen from where the person stands."""
    monkeypatch.chdir(folder.parent)
    await domain.add("notes", None)

    assert await redis.smembers(keys.domains) == {"notes"}
    assert json.loads(await redis.hget(keys.source("notes.notes"), "config"))["config"]["path"] == str(folder)


async def test_a_repository_is_added_by_its_address(redis: Client, keys: Keys) -> None:
    """GitHub's own addresses become GitHub sources."""
    await domain.add("https://github.com/octo/hello", None)

    assert await redis.hget(keys.source("octo-hello.octo-hello"), "kind") == "github"


async def test_paths_in_a_file_are_seen_from_the_file(folder: Path, redis: Client, keys: Keys) -> None:
    """Wherever the command is typed."""
    path = write_domain(folder.parent, id="kb", folder_sources=[{"path": "notes"}])
    await domain.add(path, None)

    assert json.loads(await redis.hget(keys.source("kb.notes"), "config"))["config"]["path"] == str(folder)


async def test_a_source_that_left_the_file_goes_with_its_items(
    site: Site, folder: Path, redis: Client, keys: Keys, capsys: pytest.CaptureFixture[str]
) -> None:
    """Adding again is updating: what the file no longer has is removed, after a sentence."""
    both = {"id": "kb", "folder_sources": [{"path": str(folder)}], "web_sources": [{"id": "site", "url": site.url()}]}
    await domain.add(write_domain(folder.parent, **both), None)
    await domain_crawl.crawl("kb")
    capsys.readouterr()
    await domain.add(write_domain(folder.parent, **(both | {"folder_sources": []})), None)
    left = [key async for key in redis.scan_iter("*")]

    assert "kb.notes is no longer in it" in capsys.readouterr().out
    assert [key for key in left if "notes" in key or ":file_" in key] == []
    assert await redis.hget(keys.domain("kb"), "sources") == "kb.site"
    assert await redis.zcard(keys.refs("kb.site")) == 3


async def test_file_in_the_folder_of_a_domain_needs_no_add(
    folder: Path, settings: Settings, redis: Client, keys: Keys, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever puts it there can crawl at once; a bad one beside it is a sentence, and hides nothing."""
    narrow = settings.persistent_storage_path / "domains"
    for name, text in (("DOMAIN01", json.dumps({"folder_sources": [{"path": str(folder)}]})), ("bad", "{")):
        (narrow / name).mkdir(parents=True)
        (narrow / name / "domain.json").write_text(text)
    crawled = await domain_crawl.crawl("DOMAIN01")
    capsys.readouterr()
    await domain.list_domains()
    listed = capsys.readouterr()

    assert crawled == 0
    assert await redis.zcard(keys.refs("DOMAIN01.notes")) == 2
    assert "DOMAIN01" in listed.out
    assert listed.err.startswith(f"{narrow}/bad/domain.json: This is not JSON")
    with pytest.raises(FreshetError, match="This is not JSON"):
        await domain_crawl.crawl("bad")


async def test_another_folder_of_the_same_name_does_not_replace_the_first(folder: Path, tmp_path: Path) -> None:
    """A name that Freshet made itself never overwrites another domain; a name given by a person may."""
    other = tmp_path / "elsewhere" / "notes"
    other.mkdir(parents=True)
    await domain.add(str(folder), None)
    await domain.add(str(folder), None)
    with pytest.raises(FreshetError, match="another domain notes"):
        await domain.add(str(other), None)

    assert await domain.add(str(other), "notes") == 0


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("/no/such/folder", "There is no file or folder /no/such/folder"),
        ("https://user:secret@example.org/", "user name or password"),
        ("gopher://example.org/", "is an address, not a folder"),
    ],
)
async def test_what_cannot_be_added_is_a_sentence(what: str, sentence: str, settings: Settings, redis: Client) -> None:
    """Exit code 2, no traceback, no secret, and nothing stored."""
    told = await commands.refused(settings, sentence, "scripts.domain", "add", what)

    assert "secret@" not in told
    assert await redis.keys("*") == []


async def test_a_broken_file_names_its_place(folder: Path, redis: Client) -> None:
    """File, place and what is wrong."""
    path = write_domain(folder.parent, id="kb", web_sources=[{"url": "https://example.org/", "scope": "world"}])
    with pytest.raises(FreshetError, match=rf"{path}: web_sources\[0\].scope: "):
        await domain.add(path, None)


# ── crawl ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_crawl_needs_no_worker(
    site: Site, redis: Client, keys: Keys, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every page is read in this process; the table says how many."""
    await domain.add(site.url(), "docs")
    capsys.readouterr()

    assert await domain_crawl.crawl("docs") == 0
    assert capsys.readouterr().out.splitlines()[1].split()[1:] == ["succeeded", "3", "3", "3", "0", "0", "0", "0"]
    assert await redis.scard(keys.status("Crawled")) == 3


async def test_a_second_crawl_asks_by_validators(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """Incremental: everything is checked, nothing is read again."""
    await domain.add(site.url(), "docs")
    await domain_crawl.crawl("docs")
    site.forget_requests()
    capsys.readouterr()
    await domain_crawl.crawl("docs")

    assert capsys.readouterr().out.splitlines()[1].split()[2:6] == ["3", "3", "0", "3"]
    assert all("if-none-match" in seen.headers for seen in site.web.requests if seen.path in ("/", "/a", "/b"))


async def test_a_full_crawl_reads_everything_anew(site: Site) -> None:
    """No validators are sent."""
    await domain.add(site.url(), "docs")
    await domain_crawl.crawl("docs")
    site.forget_requests()
    await domain_crawl.crawl("docs", CrawlMode.FULL)

    assert sorted(path for path in site.web.paths if path != "/sitemap.xml") == ["/", "/a", "/b"]
    assert not any("if-none-match" in seen.headers for seen in site.web.requests if seen.path != "/sitemap.xml")


@pytest.mark.parametrize("name", ["notes", "kb.notes"])
async def test_one_source_by_either_name(site: Site, folder: Path, name: str, redis: Client, keys: Keys) -> None:
    """`--source notes` and `--source kb.notes` are the same."""
    sources = {"folder_sources": [{"path": str(folder)}], "web_sources": [{"url": site.url()}]}
    await domain.add(write_domain(folder.parent, id="kb", **sources), None)
    await domain_crawl.crawl("kb", source=name)

    assert site.web.paths == []
    assert await redis.scard(keys.status("Crawled")) == 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("crawl", "nobody"), "There is no domain nobody."),
        (("crawl", "notes", "--source", "other"), "notes has no source other; it has notes."),
        (("crawl", "notes", "--scope", "lists"), "notes has no lists sources."),
        (("crawl", "notes", "--source-type", "web_sources"), "notes has no web_sources."),
        (("embed", "notes", "--source", "other"), "notes has no source other; it has notes."),
        (("report", "nobody"), "There is no domain nobody."),
        (("remove", "nobody"), "There is no domain nobody."),
    ],
)
async def test_what_is_not_there_is_a_sentence(
    words: tuple[str, ...], sentence: str, folder: Path, settings: Settings
) -> None:
    """Exit code 2."""
    await domain.add(str(folder), None)
    done = await commands.run(settings, "scripts.domain", *words)

    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


async def test_too_great_a_loss_is_held_until_somebody_says_yes(
    folder: Path, redis: Client, keys: Keys, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1 and the command that lets it; with --yes the items go."""
    await domain.add(str(folder), None)
    await domain_crawl.crawl("notes")
    empty(folder)
    held = await domain_crawl.crawl("notes")
    told = capsys.readouterr().err
    kept = await redis.zcard(keys.refs("notes.notes"))
    let = await domain_crawl.crawl("notes", yes=True)

    assert (held, kept) == (1, 2)
    assert "2 of 2 items would be gone" in told
    assert "python -m scripts.domain crawl notes --yes" in told
    assert (let, await redis.zcard(keys.refs("notes.notes"))) == (0, 0)


async def test_a_folder_that_is_not_there_is_trouble_and_no_loss(
    folder: Path, redis: Client, keys: Keys, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, and all items stay."""
    await domain.add(str(folder), None)
    await domain_crawl.crawl("notes")
    (folder.parent / "notes").rename(folder.parent / "moved")

    assert await domain_crawl.crawl("notes") == 1
    assert "cannot be read" in capsys.readouterr().err
    assert await redis.zcard(keys.refs("notes.notes")) == 2


async def test_a_site_that_cannot_be_read_says_why(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped address is not a success."""
    await domain.add(site.url("/nowhere"), "docs")
    site.web.on("/nowhere", 500)

    assert await domain_crawl.crawl("docs") == 1
    assert "nothing could be read" in capsys.readouterr().err


async def test_ctrl_c_gives_everything_back(settings: Settings, site: Site, redis: Client, keys: Keys) -> None:
    """No lease stays, and what was not visited is due at once."""
    site.page("/", links=[f"/{n}" for n in range(20)])
    for n in range(20):
        site.web.hang(f"/{n}")
    await domain.add(site.url(), "docs")
    process = start(settings, "scripts.domain", "crawl", "docs")
    while "/3" not in site.web.paths:  # noqa: ASYNC110 - another process asks, nobody tells us
        await asyncio.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = await asyncio.to_thread(process.communicate, timeout=20)

    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert [key async for key in redis.scan_iter(keys.lease("*"))] == []


# ── dry run ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_dry_run_writes_nothing(folder: Path, redis: Client, capsys: pytest.CaptureFixture[str]) -> None:
    """Not one key of the store changes; adds, changes and losses are told."""
    write(folder / "three.md")
    await domain.add(str(folder), None)
    await domain_crawl.crawl("notes")
    write(folder / "one.md", "changed")
    (folder / "two.md").unlink()
    write(folder / "four.md")
    capsys.readouterr()
    before = await commands.everything(redis)
    code = await domain_crawl.crawl("notes", dry_run=True)

    # adds, changed, removed, unchanged, refused, requests
    assert capsys.readouterr().out.splitlines()[1].split()[2:8] == ["1", "1", "1", "1", "0", "0"]
    assert code == 0
    before = {key: value for key, value in before.items() if ":done:" not in key}
    after = {key: value for key, value in (await commands.everything(redis)).items() if ":done:" not in key}
    assert after == before


# ── looking ─────────────────────────────────────────────────────────────────────────────────────


async def test_the_list_shows_every_source(site: Site, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Domain, source, kind, items, due, and how the last listing ended."""
    await domain.list_domains()
    assert "There is no domain yet" in capsys.readouterr().out
    await domain.add(site.url(), "docs")
    await domain.add(str(folder), None)
    await domain_crawl.crawl("notes")
    capsys.readouterr()
    await domain.list_domains()
    head, docs, notes = capsys.readouterr().out.splitlines()

    assert head.split()[:4] == ["DOMAIN", "SOURCE", "KIND", "ITEMS"]
    assert docs.split()[2:5] == ["web", "1", "1"]
    assert notes.split()[:5] == ["notes", "notes", "folder", "2", "0"]
    assert notes.endswith("complete")


async def test_the_report_tells_runs_refusals_and_errors(
    folder: Path, site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everything that a person wants to know when something is missing."""
    (folder / "link.md").symlink_to(folder / "one.md")
    site.web.on("/b", 500)
    sources = {"folder_sources": [{"path": str(folder)}], "web_sources": [{"id": "site", "url": site.url()}]}
    await domain.add(write_domain(folder.parent, id="kb", **sources), None)
    await domain_crawl.crawl("kb")
    capsys.readouterr()
    await domain_report.report("kb")
    told = capsys.readouterr().out

    assert "kb.notes" in told
    assert "incremental" in told
    assert "Items: 4 Crawled, 1 Error" in told
    assert f"→ {site.url('/b')}" in told
    assert "Refused by kb.notes: 1" in told
    assert f"→ {folder / 'link.md'}" in told


# ── remove ──────────────────────────────────────────────────────────────────────────────────────


async def test_removing_a_domain_leaves_nothing_of_it(
    site: Site, folder: Path, redis: Client, keys: Keys, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sources, items, texts, links, runs: all gone; the events tell that the texts are."""
    sources = {"folder_sources": [{"path": str(folder)}], "web_sources": [{"id": "site", "url": site.url()}]}
    await domain.add(write_domain(folder.parent, id="kb", **sources), None)
    await domain_crawl.crawl("kb")
    capsys.readouterr()
    before = await commands.everything(redis)
    await domain.remove("kb", dry_run=True)
    planned = capsys.readouterr().out
    after_plan = await commands.everything(redis)
    await domain.remove("kb", dry_run=False)
    told = capsys.readouterr().out
    left = {key for key in await redis.keys("*") if ":done:" not in key}
    events = [event for _, event in await redis.xrange(keys.events)]

    assert after_plan.keys() == before.keys()
    assert planned.splitlines() == [
        "Would remove kb: 2 sources, 5 items, 5 texts, 3 runs, 1 local file.",
        "Local files are those of domains/kb and crawler/kb; reports of its crawls stay.",
    ]
    assert told == planned.replace("Would remove", "Removed")
    assert {key for key in left if "fetch:" not in key} == {keys.events, keys.refresh_stats}
    assert [event["deleted"] for event in events if event["type"] == "item.gone"] == ["true"] * 5


async def test_removing_a_domain_takes_its_tombstones(
    site: Site, redis: Client, keys: Keys, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it unlisted before goes with it: pages that nothing led to any more, and those a pattern shut out."""
    site.page("/", links=["/a", "/b", "/c"])
    site.page("/c")
    site.page("/d", links=["/d/1"])
    site.page("/d/1")
    source = {"id": "site", "url": site.url()}
    await domain.add(write_domain(tmp_path, id="docs", web_sources=[source]), None)
    await domain.add(site.url("/d"), "other")
    await domain_crawl.crawl("docs")
    await domain_crawl.crawl("other")
    site.page("/", links=["/c"])
    site.page("/d")
    await domain.add(write_domain(tmp_path, id="docs", web_sources=[source | {"exclude": ["/c"]}]), None)
    await domain_crawl.crawl("docs")
    await domain_crawl.crawl("other")
    capsys.readouterr()
    before = await commands.everything(redis)
    await domain.remove("docs", dry_run=True)
    planned = capsys.readouterr().out
    assert (await commands.everything(redis)).keys() == before.keys()

    await domain.remove("docs", dry_run=False)

    assert planned.replace("Would remove", "Removed") == capsys.readouterr().out
    left = {await redis.hget(key, "fetchUrl") async for key in redis.scan_iter(keys.item("*"))}
    assert left == {site.url("/d"), site.url("/d/1")}  # the other domain's own, and its tombstone
    await domain.remove("other", dry_run=False)
    rest = {key for key in await redis.keys("*") if ":done:" not in key and "fetch:" not in key}
    assert rest == {keys.events, keys.refresh_stats}


async def test_an_item_that_another_source_lists_stays(site: Site, redis: Client, keys: Keys) -> None:
    """It leaves the removed domain and nothing else changes for it."""
    await domain.add(site.url(), "docs")
    await domain_crawl.crawl("docs")
    shared = item_of(site.url("/a"))
    await Registrar(redis, keys, "host").register([Ref(site.url("/a"))], Listing("urls"), 1000.0)
    await domain.remove("docs", dry_run=False)

    assert await redis.hget(keys.item(shared), "sources") == "urls"
    assert await redis.exists(keys.document(shared))
    assert not await redis.exists(keys.item(item_of(site.url("/b"))))
    assert await redis.zrange(keys.refs("urls"), 0, -1) == [shared]


async def test_removing_waits_for_the_run_that_has_the_source(folder: Path, redis: Client, keys: Keys) -> None:
    """Else the run would bring back what was just removed."""
    await domain.add(str(folder), None)
    leases = Leases(redis, keys)
    taken = await leases.acquire("source_notes.notes")
    assert taken is not None
    removing = asyncio.create_task(domain.remove("notes", dry_run=False))
    await asyncio.sleep(0.5)
    before = (removing.done(), await redis.smembers(keys.sources))
    await leases.release(taken[0])
    await removing

    assert before == (False, {"notes.notes"})
    assert await redis.smembers(keys.sources) == set()


async def test_removing_waits_for_a_visit_of_a_shared_item(site: Site, redis: Client, keys: Keys) -> None:
    """Else the visit would write down the removed source once more."""
    await domain.add(site.url(), "docs")
    await Registrar(redis, keys, "host").register([Ref(site.url())], Listing("urls"), 1000.0)
    leases = Leases(redis, keys)
    taken = await leases.acquire(item_of(site.url()))
    assert taken is not None
    removing = asyncio.create_task(domain.remove("docs", dry_run=False))
    await asyncio.sleep(0.5)
    is_done = removing.done()
    await leases.release(taken[0])
    await removing

    assert is_done is False
    assert await redis.hget(keys.item(item_of(site.url())), "sources") == "urls"


async def test_an_item_that_is_visited_is_not_brought_back(site: Site, redis: Client, keys: Keys) -> None:
    """Its lease goes with it: the visitor's commit is refused."""
    await domain.add(site.url(), "docs")
    leases, key = Leases(redis, keys), keys.item(item_of(site.url()))
    taken = await leases.acquire(item_of(site.url()))
    assert taken is not None
    await domain.remove("docs", dry_run=False)

    assert await leases.commit(taken[0], [("HSET", key, "status", "Crawled")]) is False
    assert not await redis.exists(key)


async def test_a_prefix_is_in_front_of_every_key(folder: Path, settings: Settings, redis: Client) -> None:
    """Two deployments on one server do not see each other's domains."""
    options = {"KEY_PREFIX": "{a}:"}
    for words in (("add", str(folder)), ("crawl", "notes"), ("report", "notes")):
        done = await commands.run(settings, "scripts.domain", *words, **options)
        assert done.returncode == 0, done.stderr
    names = await redis.keys("*")
    removed = await commands.run(settings, "scripts.domain", "remove", "notes", **options)

    assert names
    assert [name for name in names if not name.startswith("{a}:")] == []
    assert removed.stdout.startswith("Removed notes: 1 source, 2 items, 2 texts, 2 runs, 1 local file.\n")
