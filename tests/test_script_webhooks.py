"""scripts.webhooks: what a person sees of webhooks, and that no secret is seen twice."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.keys import Keys
from core.settings import ROOT, Settings
from core.store.connect import Client
from core.store.event_command import event
from tests import commands, ports
from tests.faults import process
from tests.webhook_receiver import Receiver

SECRET = re.compile(r"whsec_[A-Za-z0-9+/=]{20,}")


@pytest.fixture
async def receiver(redis: Client) -> AsyncIterator[Receiver]:
    async with Receiver() as running:
        yield running


async def run(settings: Settings, *words: str) -> subprocess.CompletedProcess[str]:
    return await commands.run(settings, "scripts.webhooks", *words)


async def happen(redis: Client, keys: Keys, kind: str) -> str:
    return str(await redis.execute_command(*event(keys, kind, id="url_a")))


async def test_life_of_a_webhook(settings: Settings, redis: Client, keys: Keys, receiver: Receiver) -> None:
    """Added, tested, delivered to, in trouble, skipped, replayed, rotated, removed; each with a sentence."""
    url = receiver.url("/hook")
    none = await run(settings, "list")
    added = await run(settings, "add", url, "--type", "item.*")
    [secret] = SECRET.findall(added.stdout)
    [name] = re.findall(r"wh_[0-9a-f]{12}", added.stdout.splitlines()[0])
    refused = await run(settings, "test", name)
    receiver.trust("/hook", secret)
    tested = await run(settings, "test", name)
    first = await happen(redis, keys, "item.gone")
    sent = await commands.run(settings, "workers.webhooks", "--once", LOG_LEVEL="DEBUG")
    receiver.answers("/hook", 500)
    second = await happen(redis, keys, "item.gone")
    failed = await commands.run(settings, "workers.webhooks", "--once", LOG_LEVEL="DEBUG")
    status = await commands.run(settings, "scripts.status")
    listed = await run(settings, "list")
    shown = await run(settings, "show", name)
    skipped = await run(settings, "skip", name)
    dead = await run(settings, "dead", name)
    paused = await run(settings, "pause", name)
    resumed = await run(settings, "resume", name)
    from_id = await run(settings, "replay", name, "--from", "0")
    replayed = await run(settings, "replay", name, "--dead")
    receiver.answers("/hook", 204)
    await commands.run(settings, "workers.webhooks", "--once")
    rotated = await run(settings, "rotate", name)
    as_json = await run(settings, "list", "--json")
    removed = await run(settings, "remove", name)
    gone = await run(settings, "show", name)

    assert none.stdout == "There is no webhook.\n"
    assert added.stdout.startswith(f"{name} is added → {url}\nSecret, shown only now: whsec_"), added.stderr
    assert (refused.returncode, refused.stdout) == (1, "Not taken. The receiver answered 401.\n")
    assert (tested.returncode, tested.stdout) == (0, "The receiver answered 204.\n")
    assert f"item.gone {first} → {name}" in sent.stderr
    assert f"item.gone {second} failed (attempt 1 of 10, next in" in failed.stderr
    assert "Webhooks  1 (1 active); waiting 1, failing 1, dead 0, lost events 0" in status.stdout
    assert "The receiver answered 500." in listed.stdout
    assert f"{name} is active → {url}\n  wants      type item.*\n  delivered  1 event" in shown.stdout
    assert "waiting    1 event" in shown.stdout
    assert "waiting    0 events" in skipped.stdout
    assert f"{second}  item.gone  0" in dead.stdout
    assert (f"{name} is paused" in paused.stdout, f"{name} is active" in resumed.stdout) == (True, True)
    assert from_id.stdout == f"Events from {first} on will be delivered once more, before what waits.\n"
    assert replayed.stdout == "1 dead letter will be delivered once more.\n"
    assert receiver.taken("/hook")[1:] == [first, second, first, second]
    assert SECRET.findall(rotated.stdout) != [secret]
    assert json.loads(as_json.stdout)[0]["delivered"] == 4
    assert removed.stdout == f"{name} is removed → {url}\n"
    assert (gone.returncode, "There is no webhook" in gone.stderr) == (2, True)
    others = (
        refused,
        tested,
        status,
        sent,
        failed,
        listed,
        shown,
        skipped,
        dead,
        paused,
        resumed,
        from_id,
        as_json,
        removed,
    )
    assert [SECRET.findall(one.stdout + one.stderr) for one in others] == [[]] * len(others)


async def test_mistakes_are_sentences(settings: Settings, redis: Client) -> None:
    """An address that is not open to us, a type that is none, an id that is none."""
    private = await run(settings, "add", "http://10.1.2.3/hook")
    kind = await run(settings, "add", "https://example.org/hook", "--type", "article")
    unknown = await run(settings, "pause", "wh_000000000000")

    assert [one.returncode for one in (private, kind, unknown)] == [2, 2, 2]
    assert "FETCH_ALLOWED_HOSTS" in private.stderr
    assert "There are no events 'article'. There are: article.stored" in kind.stderr
    assert "There is no webhook wh_000000000000." in unknown.stderr


async def test_receiver_of_the_documentation(settings: Settings, redis: Client, keys: Keys, tmp_path: Path) -> None:
    """The example in docs/webhooks.md runs as it stands, takes what we sign, and refuses what we do not."""
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "webhooks.md").read_text(), re.S)
    (tmp_path / "receiver.py").write_text(code)
    port = ports.take()
    added = await run(settings, "add", f"http://127.0.0.1:{port}/hook", "--json")
    webhook = json.loads(added.stdout)
    environment = {**os.environ, "WEBHOOK_SECRET": webhook["secret"], "PORT": str(port)}
    log = tmp_path / "receiver.log"
    with log.open("wb") as out:
        running = await asyncio.create_subprocess_exec(
            sys.executable, str(tmp_path / "receiver.py"), env=environment, stdout=out, stderr=out
        )
    try:
        await process.until(lambda: "Running on" in log.read_text(), log.read_text)
        tested = await run(settings, "test", webhook["id"])
        await happen(redis, keys, "item.gone")
        await commands.run(settings, "workers.webhooks", "--once")
        await redis.hset(keys.webhook(webhook["id"]), "secret", "whsec_" + "A" * 43 + "=")
        wrong = await run(settings, "test", webhook["id"])
    finally:
        running.kill()
        await running.wait()

    assert (tested.stdout, wrong.stdout) == (
        "The receiver answered 204.\n",
        "Not taken. The receiver answered 401.\n",
    ), log.read_text()
    assert re.findall(r"^(?:webhook|item)\.\w+", log.read_text(), re.M) == ["webhook.test", "item.gone"]
