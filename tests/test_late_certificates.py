"""Certificates of authorities are read when the first https host is asked, and then count as ever."""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.certificates import CertificateFiles, make_certificate

ASK = """
import asyncio, sys
import core.net.http_session
import aiohttp, aiohttp.connector

async def ask(url):
    contexts = (aiohttp.connector._SSL_CONTEXT_VERIFIED, aiohttp.connector._SSL_CONTEXT_UNVERIFIED)
    known = sum(context.cert_store_stats()["x509_ca"] for context in contexts)
    async with aiohttp.ClientSession() as session:
        try:
            async with session.get(url) as response:
                answer = await response.text()
        except aiohttp.ClientConnectorCertificateError:
            answer = "refused"
    print(known, answer, *(type(context).__name__ for context in contexts))

asyncio.run(ask(sys.argv[1]))
"""


@pytest.fixture
def tls(tmp_path: Path) -> CertificateFiles:
    return make_certificate(tmp_path)


@pytest.fixture
async def url(tls: CertificateFiles) -> AsyncIterator[str]:
    """The address of a server with that certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.public, tls.private)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


async def ask(url: str, **environment: str) -> list[str]:
    """What a process of its own has to say about this URL."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", ASK, url), env=os.environ | environment, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    return said.decode().split()


async def test_trusted_host_is_reached(url: str, tls: CertificateFiles) -> None:
    """None is known after the import; the first connection reads them, and its context is ordinary from then on."""
    assert await ask(url, SSL_CERT_FILE=str(tls.public)) == ["0", "hello", "SSLContext", "LateContext"]


async def test_other_host_is_refused(url: str) -> None:
    """A certificate that nobody vouches for is refused, as without us."""
    assert await ask(url) == ["0", "refused", "SSLContext", "LateContext"]
