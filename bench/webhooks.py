"""Webhooks: deliveries per CPU second of the real sender, with one receiver and with many.

The receivers are one other process that answers 204; the sender is the real one, started as a user would. Beside it, in
the same run, a bare aiohttp loop that signs with the official library and sends the same bodies, and keeps no books.

    python -m bench.webhooks [--events N] [--webhooks N]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import aiohttp

from bench.harness import Figures, measured, serving
from core.keys import Keys
from core.outputs.io.webhook_store import WebhookStore
from core.outputs.webhook_filter import checked_filter
from core.secret_text import SecretStr
from core.settings import Settings
from core.store import connect, embedded
from core.store.event_command import event

HOST = "127.0.0.1"
ARTICLES = 1_000
WANTED_PER_HOUR = 100_000


# ── the receivers: a raw server, so that they are not the bottleneck ──


async def serve() -> int:
    """Answer 204 to every request; return how many there were."""
    count = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(line for line in head.lower().splitlines() if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.split(b":")[1]))
                count += 1
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, HOST, 0, backlog=1024)
    print(json.dumps({HOST: server.sockets[0].getsockname()[1]}), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    return count


# ── the store: webhooks, articles, and events about them ──


async def fill(settings: Settings, url: str, webhooks: int, events: int) -> None:
    """Add webhooks, some of them with a saved search that everything matches, then events."""
    client, keys = connect.open_store(settings), Keys()
    for number in range(webhooks):
        wanted = checked_filter(categories=["world"], search="gauge" if number % 2 else "")
        await WebhookStore(client, keys).add(url, wanted, time.time())
    text = "The gauge at the weir was read at noon, and the water had risen again. " * 40
    pipe = client.pipeline(transaction=False)
    for number in range(ARTICLES):
        article = {"title": f"Report {number}", "clean_text": text, "language": "en", "categories": "world"}
        article |= {"url": f"https://www.example.org/{number}", "abstract": text[:200]}
        pipe.hset(keys.article(f"{number:016x}"), mapping=cast(dict[Any, Any], article))
    for number in range(events):
        uid = f"{number % ARTICLES:016x}"
        pipe.execute_command(*event(keys, "article.stored", uid=uid, id=f"url_{uid}", category="world"))
    await pipe.execute()
    await client.aclose()


async def delivered(settings: Settings) -> int:
    """How many deliveries the store has noted."""
    client = connect.open_store(settings)
    count = sum(one.delivered for one in await WebhookStore(client, Keys()).read_all())
    await client.aclose()
    return count


async def bare(url: str, count: int, at_once: int) -> None:
    """The least anybody could do: sign and send."""
    from standardwebhooks.webhooks import Webhook

    signer = Webhook("whsec_" + "A" * 43 + "=")
    body = json.dumps({"type": "article.stored", "data": {"abstract": "The gauge at the weir. " * 10}})
    left = iter(range(count))

    async def send(session: aiohttp.ClientSession) -> None:
        for number in left:
            now = datetime.now(UTC)
            signature = signer.sign(msg_id=f"msg_{number}", timestamp=now, data=body)
            headers = {"webhook-id": f"msg_{number}", "webhook-timestamp": str(int(now.timestamp()))}
            async with session.post(url, data=body, headers=headers | {"webhook-signature": signature}) as response:
                assert response.status == 204

    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*(send(session) for _ in range(at_once)))


# ── the comparison ──


def sender(webhooks: int, events: int, folder: Path) -> Figures:
    """The real sender on a full stream, to its end."""
    server = embedded.start(folder / f"redis{webhooks}", embedded.free_port(0))
    settings = Settings(redis_url=SecretStr(server.url))
    environment = {
        "REDIS_URL": server.url,
        "PERSISTENT_STORAGE_PATH": str(folder),
        "FETCH_ALLOWED_HOSTS": "127.0.0.0/8",
        "LOG_LEVEL": "WARNING",
    }
    report = folder / "count.json"
    with serving("bench.webhooks", "--serve", str(report)) as ports:
        asyncio.run(fill(settings, f"http://{HOST}:{ports[HOST]}/hook", webhooks, events))
        figures = measured("workers.webhooks", "--once", **environment)
    noted = asyncio.run(delivered(settings))
    server.stop()
    assert noted == json.loads(report.read_text()) == webhooks * events
    return figures


def bare_loop(webhooks: int, events: int, folder: Path) -> Figures:
    """The bare loop with as many requests."""
    with serving("bench.webhooks", "--serve", str(folder / "bare.json")) as ports:
        url = f"http://{HOST}:{ports[HOST]}/hook"
        return measured(
            "bench.webhooks", "--bare", url, "--events", str(webhooks * events), "--webhooks", str(webhooks)
        )


def compare(events: int, webhooks: int, folder: Path) -> None:
    """Run everything and print the table."""
    rows = []
    for count in (1, webhooks):
        each = events // count
        rows.append((f"freshet, {count} webhooks", sender(count, each, folder), each * count))
        rows.append((f"bare loop, {count} at once", bare_loop(count, each, folder), each * count))
    print(f"\n{'':28}{'deliveries/CPU-s':>17}{'ms CPU each':>13}{'wall s':>8}{'per hour':>12}{'peak MB':>9}")
    for name, took, sent in rows:
        cpu, wall = took.cpu_seconds, took.wall_seconds
        rates = f"{sent / cpu:17.0f}{1000 * cpu / sent:13.2f}{wall:8.1f}{3600 * sent / wall:12,.0f}"
        print(f"{name:28}{rates}{took.peak_mb:9.0f}")
    slowest = max(took.cpu_seconds / sent for _, took, sent in rows[::2])
    print(
        f"{WANTED_PER_HOUR:,} deliveries an hour take {100 * slowest * WANTED_PER_HOUR / 3600:.1f} % of a core at most"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=6_000, help="deliveries in all")
    parser.add_argument("--webhooks", type=int, default=30)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--bare", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        Path(given.serve).write_text(json.dumps(asyncio.run(serve())))
    elif given.bare:
        asyncio.run(bare(given.bare, given.events, given.webhooks))
    else:
        with tempfile.TemporaryDirectory() as folder:
            compare(given.events, given.webhooks, Path(folder))


if __name__ == "__main__":
    main()
