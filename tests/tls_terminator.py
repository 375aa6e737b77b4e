"""TLS in front of a plain server on loopback, as managed Redis services and stunnel have it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests import ports
from tests.certificates import CertificateFiles


@contextmanager
def tls_in_front_of(target_port: int, files: CertificateFiles) -> Iterator[int]:
    """Yield the port of a thread that takes TLS connections and passes their bytes on."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(files.public, files.private)
    port, loop, is_open = ports.take(), asyncio.new_event_loop(), threading.Event()

    async def serve() -> None:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target_port)
                await asyncio.gather(_pass_on(reader, far_writer), _pass_on(far_reader, writer))
            except OSError:
                writer.close()

        async with await asyncio.start_server(connected, "127.0.0.1", port, ssl=tls):
            is_open.set()
            await asyncio.Event().wait()

    async def until_cancelled(task: asyncio.Task[None]) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await task

    task = loop.create_task(serve())
    thread = threading.Thread(target=loop.run_until_complete, args=(until_cancelled(task),), daemon=True)
    thread.start()
    assert is_open.wait(10)
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(10)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.close()
