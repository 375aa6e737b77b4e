"""Only what settings or the person's own command named is read from the disk, whatever stands in Redis."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from core.errors import FreshetError
from core.keys import Keys
from core.models import Failed, Fetched
from core.registry.io.registrar import Listing, item_id_of, ref_of
from core.registry.record import Item
from core.settings import Settings
from core.sources.io import read_permission
from core.sources.io.crawl import CrawlMode, crawl_source
from core.sources.io.domain_file import parse_quick
from core.sources.source_record import SourceRecord
from core.store import connect
from core.store.connect import Client
from scripts import domain, domain_crawl
from tests import commands
from tests.crawled_site import crawl_context
from tests.site import FILLER


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """Somebody's folder, outside of all roots."""
    folder = tmp_path / "alice"
    folder.mkdir()
    (folder / "diary.md").write_text(f"# Diary\n\n{FILLER}")
    os.utime(folder / "diary.md", (1_700_000_000, 1_700_000_000))
    return folder


@pytest.fixture
def strict(settings: Settings, tmp_path: Path) -> Settings:
    """No folder is allowed by the settings."""
    return settings.model_copy(update={"folder_roots": (), "persistent_storage_path": tmp_path / "data"})


def config_of(folder: Path, **changes: object) -> SourceRecord:
    [config] = parse_quick(str(folder), "/").sources()
    return SourceRecord(config.sid, config.kind, config.domain, {**config.config, **changes})


async def count_texts(client: Client, keys: Keys) -> int:
    return len([key async for key in client.scan_iter(keys.document("*"))])


# ── folders ─────────────────────────────────────────────────────────────────────────────────────


async def test_record_that_somebody_wrote_into_redis_reads_nothing(
    strict: Settings, redis: Client, keys: Keys, private: Path
) -> None:
    """A source that no command of this user added is listed as incomplete, with a sentence that says what to do."""
    async with crawl_context(strict) as context:
        config = config_of(private)
        await context.sources.add(config, "", await connect.now(redis))

        run = await crawl_source(context, config.sid, CrawlMode.INCREMENTAL)

    assert (run["status"], run["problem"]) == ("partial", "incomplete")
    assert "may not be read" in run["message"]
    assert "FOLDER_ROOTS" in run["message"]
    assert "scripts.domain add" in run["message"]
    assert (run["discovered"], await count_texts(redis, keys)) == ("0", 0)


async def test_own_command_may_read(
    strict: Settings, redis: Client, keys: Keys, private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `scripts.domain add` named is read without any setting."""
    commands.adopt(monkeypatch, strict)
    await domain.add(str(private), "notes")

    assert await domain_crawl.crawl("notes") == 0
    assert await count_texts(redis, keys) == 1


async def test_source_of_an_earlier_version_loses_nothing(
    strict: Settings,
    redis: Client,
    keys: Keys,
    private: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without a signature nothing is read and nothing removed; adding it once more sets it right."""
    commands.adopt(monkeypatch, strict)
    await domain.add(str(private), "notes")
    await domain_crawl.crawl("notes")
    [sid] = await redis.smembers(keys.sources)
    record = json.loads(str(await redis.hget(keys.source(sid), "config")))
    del record["signature"]
    await redis.hset(keys.source(sid), "config", json.dumps(record))

    for mode in (CrawlMode.INCREMENTAL, CrawlMode.FULL):
        assert await domain_crawl.crawl("notes", mode) == 1
        assert "scripts.domain add" in capsys.readouterr().err
        assert await count_texts(redis, keys) == 1
    await domain.add(str(private), "notes")
    assert await domain_crawl.crawl("notes") == 0


@pytest.mark.parametrize("change", [{"path": "/etc"}, {"include": ["**"]}, {"exclude": ["x"]}])
def test_changed_record_is_not_signed(strict: Settings, private: Path, change: dict[str, object]) -> None:
    """A signature is good for the whole record: neither another folder nor other patterns."""
    good = read_permission.sign_source(strict, config_of(private))
    changed = SourceRecord(good.sid, good.kind, good.domain, {**good.config, **change}, good.signature)

    assert read_permission.folder_refusal(strict, good, str(private)) == ""
    assert read_permission.folder_refusal(strict, changed, str(changed.config["path"])) != ""


def test_root_covers_what_lies_below_it_and_no_symlink_out(strict: Settings, tmp_path: Path, private: Path) -> None:
    """Below FOLDER_ROOTS no signature is needed; a link that leads out of it opens nothing."""
    root = tmp_path / "root"
    (root / "inside").mkdir(parents=True)
    (root / "out").symlink_to(private)
    settings = strict.model_copy(update={"folder_roots": (str(root),)})

    refusals = [
        read_permission.folder_refusal(settings, config_of(path), str(path)) for path in (root, root / "inside")
    ]
    assert refusals == ["", ""]
    assert read_permission.folder_refusal(settings, config_of(root / "out"), str(root / "out"))
    assert read_permission.folder_refusal(settings, config_of(tmp_path), str(tmp_path))
    assert read_permission.folder_refusal(settings, config_of(Path(f"{root}-2")), f"{root}-2")


def test_key_is_its_users_alone(strict: Settings, private: Path) -> None:
    """Made once, mode 0600; a key that others could read signs nothing."""
    first = read_permission.sign_source(strict, config_of(private))
    path = strict.persistent_storage_path / read_permission.KEY_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_permission.sign_source(strict, config_of(private)) == first
    path.chmod(0o644)

    assert "open to other users" in read_permission.folder_refusal(strict, first, str(private))
    with pytest.raises(FreshetError, match="open to other users"):
        read_permission.sign_source(strict, config_of(private))


def test_roots_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    """`FOLDER_ROOTS=/a, /b` names two."""
    monkeypatch.setenv("FOLDER_ROOTS", "/a, /b")

    assert Settings().folder_roots == ("/a", "/b")


# ── single files ────────────────────────────────────────────────────────────────────────────────


async def test_single_file_needs_a_name_from_its_user(
    strict: Settings, redis: Client, keys: Keys, private: Path
) -> None:
    """A file that was registered by us is read; the record of one that somebody wrote is not."""
    (private / "letter.md").write_text(f"# Letter\n\n{FILLER}")
    async with crawl_context(strict) as context:
        now = await connect.now(redis)
        own = await context.registrar.add(str(private / "diary.md"), "file", now)
        ref = ref_of(str(private / "letter.md"), "file")
        await context.registrar.register([ref], Listing("urls"), now)
        answers = []
        for item_id in (own, item_id_of(ref)):
            [item] = await context.items.read([item_id])
            assert isinstance(item, Item)
            answers.append(await _fetch(context, item))

    assert isinstance(answers[0], Fetched)
    assert isinstance(answers[1], Failed)
    assert "may not be read" in answers[1].text


async def _fetch(context, item: Item):
    from core.sources.io.open_sources import OpenSources

    source = await OpenSources(context, 0.0).open("urls")
    return await source.fetch(item, {})


# ── a file without end ──────────────────────────────────────────────────────────────────────────


async def test_sparse_file_holds_up_nobody(settings: Settings, redis: Client, keys: Keys, private: Path) -> None:
    """600 GB of nothing are refused by their size, and the other files are read."""
    with (private / "huge.md").open("wb") as file:
        file.truncate(600_000_000_000)
    os.utime(private / "huge.md", (1_700_000_000, 1_700_000_000))
    async with crawl_context(settings) as context:
        config = config_of(private)
        await context.sources.add(config, "", await connect.now(redis))

        run = await crawl_source(context, config.sid, CrawlMode.INCREMENTAL)
        again = await crawl_source(context, config.sid, CrawlMode.INCREMENTAL)

    assert (run["changed"], run["excluded"]) == ("1", "1")
    assert (again["status"], again["unchanged"]) == ("succeeded", "2")
