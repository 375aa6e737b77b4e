"""The HTTP API as a whole: errors, parameters, start and stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from core.secret_text import SecretStr
from core.settings import ROOT, Settings
from core.store import connect, embedded
from tests import commands, ports, prefork
from tests.api import PROBES, Answer, ApiServer, api_server

PATIENCE_SECONDS = 60.0
HEAVY = {"numpy", "onnxruntime", "tantivy", "usearch", "trafilatura", "pypdf", "feedparser"}


@pytest.fixture
async def probe(settings: Settings, redis: connect.Client) -> AsyncIterator[ApiServer]:
    """An API of one route, which repeats its body."""
    async with api_server(settings, PROBES) as running:
        yield running


# ── requests ──


async def test_unknown_path_is_an_error_of_ours(api: ApiServer) -> None:
    """A path that is not there answers 404 with code, message and hint."""
    answer = await api.get("/nothing")

    assert (answer.status, answer.error["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("query", "hint"),
    [("typ=item.gone", "Did you mean type?"), ("zzz=1", "It has after, type."), ("type=a&type=b", "Write it once.")],
)
async def test_wrong_query_says_what_is_right(api: ApiServer, query: str, hint: str) -> None:
    """A misspelt parameter names the nearest, an unknown one all, a repeated one is refused."""
    answer = await api.get(f"/stream?{query}")

    assert (answer.status, answer.error["hint"]) == (422, hint)


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        (b"", 200, ""),
        (b"{}", 200, ""),
        (b'{"word": "a", "number": 3, "is_on": true}', 200, ""),
        (b'{"number": "3"}', 422, "number"),
        (b'{"number": 3.5}', 422, "number"),
        (b'{"is_on": 1}', 422, "is_on"),
        (b'{"word": null}', 422, "word"),
        (b'{"word": "12345678901"}', 422, "10 characters"),
        (b'{"wrod": "a"}', 422, "wrod"),
        (b"[]", 422, "no object"),
        (b"{", 400, "not JSON"),
        (b'{"number": NaN}', 400, "not JSON"),
        (b'{"word": "\xff"}', 400, "not JSON"),
        (b'{"word": "\\ud800"}', 400, "not JSON"),
    ],
)
async def test_bodies_are_strict(probe: ApiServer, body: bytes, status: int, told: str) -> None:
    """A value of another type, an unknown field or a text that is not JSON is refused with a sentence that names it."""
    answer = await probe.post("/probe", data=body, headers={"Content-Type": "application/json"})

    assert answer.status == status, answer.text
    assert status == 200 or told in answer.error["message"]


async def test_body_without_a_type_is_refused(probe: ApiServer) -> None:
    """Only JSON is read, whatever it looks like."""
    answer = await probe.post("/probe", data=b"{}", headers={"Content-Type": "text/plain"})

    assert (answer.status, answer.error["code"]) == (415, "unsupported_media_type")


async def test_mistakes_of_ours_are_logged_with_a_number(probe: ApiServer, caplog: pytest.LogCaptureFixture) -> None:
    """An unexpected exception is a 500 that tells nothing but a number; the log has the rest under it."""
    answer = await probe.post("/probe", json={"word": "fail"})

    assert (answer.status, answer.error["code"]) == (500, "internal")
    assert "hunter2" not in answer.text
    [record] = [record for record in caplog.records if record.name == "web"]
    number = str(next(iter(record.args)))
    assert number in answer.error["message"]
    assert "hunter2" in str(record.exc_info[1])


@pytest.mark.parametrize(
    "sent",
    [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nA: " + b"x" * 20_000 + b"\r\n\r\n", b"GET /docs HTTP/9.9\r\n\r\n"],
    ids=["no HTTP", "a long header", "another version"],
)
async def test_what_is_no_http_gets_an_error_of_ours(
    api: ApiServer, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    """Bytes that cannot be read as a request are answered with 400, as JSON, and leave no traceback in the log."""
    host, port = api.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(sent)
    reply = await reader.read()
    writer.close()

    assert b" 400 Bad Request" in reply.split(b"\r\n")[0]
    assert b'{"error":{"code":"bad_request"' in reply
    assert not any(record.exc_info for record in caplog.records)


async def test_docs_page_lists_every_route(api: ApiServer) -> None:
    """The docs page has every path of the OpenAPI document, and no script, inline style or outside request."""
    page, document = await api.get("/docs"), await api.get("/openapi.json")

    assert [path for path in document.json["paths"] if path not in page.text] == []
    assert not any(sign in page.text for sign in ("<script", "style=", "//", "<style"))
    assert (await api.get("/static/api.css")).headers["Content-Type"].startswith("text/css")


# ── the process ──


@contextlib.asynccontextmanager
async def process(settings: Settings, log: Path, **more: str) -> AsyncIterator[prefork.Process]:
    """`python -m workers.web` in a process of its own."""
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG"}}
    environment = kept | commands.environment(settings) | {"LOG_LEVEL": "INFO"} | more
    with log.open("wb") as out:
        running = prefork.start(["workers.web"], ROOT, environment, out, out)
        try:
            yield running
        finally:
            running.kill()


async def until(session: aiohttp.ClientSession, url: str, status: int) -> Answer:
    """Ask until the answer has this status."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(url) as reply:
                    if reply.status == status:
                        return Answer(reply.status, reply.headers, await reply.text())
            await asyncio.sleep(0.05)


async def test_redis_may_come_and_go(settings: Settings, tmp_path: Path) -> None:
    """It listens without Redis and answers 503 with a sentence; it works when Redis comes, goes and comes back.

    SIGTERM ends it at once and cleanly, though a client still listens to the event stream.
    """
    redis_port, port = ports.take(), ports.take()
    away = settings.model_copy(update={"redis_url": SecretStr(f"redis://127.0.0.1:{redis_port}/0")})
    url, log = f"http://127.0.0.1:{port}", tmp_path / "web.log"
    async with (
        process(away, log, API_BIND=f"127.0.0.1:{port}", REDIS_TIMEOUT_SECONDS="2") as web,
        aiohttp.ClientSession() as session,
    ):
        refused = await until(session, f"{url}/v2/jobs", 503)
        assert (await until(session, f"{url}/docs", 200)).status == 200
        server = embedded.start(tmp_path / "server", redis_port)
        try:
            await until(session, f"{url}/v2/jobs", 200)
            server.stop()
            gone = await until(session, f"{url}/v2/jobs", 503)
            server = embedded.start(tmp_path / "server", redis_port)
            await until(session, f"{url}/v2/jobs", 200)
            async with session.get(f"{url}/stream") as stream:
                await stream.content.readuntil(b"\n\n")
                web.send_signal(signal.SIGTERM)
                code = await asyncio.to_thread(web.wait, PATIENCE_SECONDS)
        finally:
            server.stop()

    for answer in (refused, gone):
        assert answer.error["code"] == "unavailable"
        assert "Redis" in answer.error["message"]
        assert int(answer.headers["Retry-After"]) >= 1
    assert code == 0
    assert "Traceback" not in log.read_text()
    assert "💥" not in log.read_text()


async def test_unsafe_address_is_refused(settings: Settings) -> None:
    """On an address that others can reach it does not start without a token, and says so in one sentence."""
    done = await commands.run(settings, "workers.web", API_BIND=f"0.0.0.0:{ports.take()}")

    assert done.returncode == 2
    assert done.stderr.startswith("Cannot start. API_BIND: 0.0.0.0:")
    assert "Traceback" not in done.stderr


async def test_taken_port_is_waited_for(settings: Settings, redis: connect.Client, tmp_path: Path) -> None:
    """Another program's port is a sentence in the log that names the setting; it listens when the port is free."""
    log = tmp_path / "web.log"
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        async with process(settings, log, API_BIND=f"127.0.0.1:{port}") as web:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while "another program has this port. Set API_BIND" not in log.read_text():  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            assert web.poll() is None


def test_missing_extra_is_a_sentence() -> None:
    """Without the packages of the extra `web` it names the one that is missing, and how to install it."""
    program = "import runpy, sys; sys.modules['aiohttp_sse'] = None; runpy.run_module('workers.web', None, '__main__')"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "The HTTP API needs aiohttp_sse. Install it with: pip install -e '.[web]'\n"


def test_start_is_light() -> None:
    """What only a search or a page needs is not imported before it is asked for."""
    words = [sys.executable, "-c", "import sys, workers.web.app; print(*sys.modules)"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)

    assert HEAVY & set(done.stdout.split()) == set()
