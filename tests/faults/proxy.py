"""A door between redis-py and the real server that can lose replies, slam, stay shut, or give wrong answers.

    async with Proxy(server.port) as proxy:
        settings = settings.model_copy(update={"redis_url": SecretStr(proxy.url)})
        proxy.drop_reply(7)          # the server executes the 7th command from here on, the client never hears of it
        proxy.answer(LOADING)        # every command is answered so, until forward()
        await proxy.off()            # nobody listens; await proxy.on() and it is back on the same port
        proxy.hold(5)                # the 5th command stands before the door (is_holding): kill its sender, let_go()

Commands are counted over all connections, each of a pipeline by itself; what redis-py sends by itself on connecting is
not counted. Nothing is changed on the way: bytes pass as they came.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Self

from tests.faults import resp

LOADING = b"-LOADING Redis is loading the dataset in memory\r\n"
READONLY = b"-READONLY You can't write against a read only replica.\r\n"

# While it loads, the server still greets.
_ANSWERED_ANYWAY = frozenset({"HELLO", "AUTH", "CLIENT", "SELECT"})
READ_BYTES = 256 * 1024


class Proxy:
    """One door to one server. Runs in the test's event loop."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener: asyncio.Server | None = None
        self._visits: dict[_Visit, asyncio.Task[None]] = {}
        self._drops: set[int] = set()
        self._hold_at = 0
        self._arrived = asyncio.Condition()
        self._refusal = b""
        self.port = 0
        self.commands: list[str] = []
        """What was asked since the last `count_from_here`, as `NAME key`."""
        self.dropped: list[str] = []
        """The commands whose reply was lost."""
        self.connections = 0
        self.is_holding = False

    @property
    def url(self) -> str:
        """For REDIS_URL."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def is_on(self) -> bool:
        """Does anybody listen?"""
        return self._listener is not None

    @property
    def count(self) -> int:
        """Commands since the last `count_from_here`."""
        return len(self.commands)

    # ── verbs ──

    def count_from_here(self) -> None:
        """The next command is number one."""
        self.commands.clear()
        self.dropped.clear()

    def drop_reply(self, *numbers: int) -> None:
        """Lose the replies of these commands, once each: the server has executed them, the connection breaks."""
        self._drops = set(numbers)

    def cut(self) -> None:
        """Break every connection now; new ones are welcome."""
        for visit, task in self._visits.items():
            visit.slam()
            task.cancel()

    async def off(self) -> None:
        """The server is gone: every connection breaks, new ones are refused by the kernel."""
        if self._listener:
            self._listener.close()
            self._listener = None
        self.cut()
        await asyncio.gather(*self._visits.values(), return_exceptions=True)

    async def on(self) -> None:
        """The server is back, on the same port."""
        self._listener = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = self._listener.sockets[0].getsockname()[1]

    def answer(self, refusal: bytes) -> None:
        """Every command from now on is answered with this error and goes no further."""
        self._refusal = refusal

    def forward(self) -> None:
        """The end of `answer`."""
        self._refusal = b""

    async def until(self, number: int) -> None:
        """Return when that many commands have been asked."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: self.count >= number)

    def hold(self, number: int) -> None:
        """Commands from that number on stand before the door, sent and never executed; `is_holding` when one does."""
        self._hold_at = number
        self.is_holding = False

    def let_go(self) -> None:
        """Break all connections, and forget what was held: its sender is dead."""
        self._hold_at = 0
        self.is_holding = False
        self.cut()

    # ── serving ──

    async def __aenter__(self) -> Self:
        await self.on()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.off()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        visit = _Visit(self, reader, writer)
        task = asyncio.get_running_loop().create_task(visit.serve(self._server_port))
        self._visits[visit] = task
        task.add_done_callback(lambda _: self._visits.pop(visit, None))

    async def came(self, frame: bytes) -> int:
        """Count a command, hold it if asked to; its number, 0 for redis-py's own talk."""
        if resp.is_set_up(frame):
            return 0
        self.commands.append(resp.shown(frame))
        number = self.count
        async with self._arrived:
            self._arrived.notify_all()
        if self._hold_at and number >= self._hold_at:
            self.is_holding = True
            await asyncio.Event().wait()  # until cut
        return number

    def refusal_of(self, frame: bytes) -> bytes:
        """What is answered instead of asking the server; empty: ask it."""
        return b"" if resp.name(frame) in _ANSWERED_ANYWAY else self._refusal

    def loses(self, number: int) -> bool:
        """Is this the reply to lose?"""
        if number not in self._drops:
            return False
        self._drops.discard(number)
        self.dropped.append(self.commands[number - 1])
        return True


class _Visit:
    """One client's connection and its twin at the server."""

    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._reader = reader
        self._writer = writer
        self._upstream: asyncio.StreamWriter | None = None
        # In the order of the commands: the number whose reply is awaited, or the answer we give ourselves.
        self._awaited: deque[int | bytes] = deque()

    def slam(self) -> None:
        """No more bytes either way."""
        for writer in (self._writer, self._upstream):
            if writer:
                writer.transport.abort()

    async def serve(self, server_port: int) -> None:
        try:
            from_server, self._upstream = await asyncio.open_connection("127.0.0.1", server_port)
            there = asyncio.ensure_future(self._carry_commands(self._upstream))
            back = asyncio.ensure_future(self._carry_replies(from_server))
            try:
                await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
            finally:
                there.cancel()
                back.cancel()
                await asyncio.gather(there, back, return_exceptions=True)
        except OSError:
            pass  # the server behind us is gone: to the client that is a broken connection
        finally:
            self.slam()

    async def _carry_commands(self, upstream: asyncio.StreamWriter) -> None:
        frames = resp.Frames()
        while piece := await self._reader.read(READ_BYTES):
            for frame in frames.feed(piece):
                number = await self._proxy.came(frame)
                refusal = self._proxy.refusal_of(frame)
                self._awaited.append(refusal or number)
                if refusal:
                    self._give_own_answers()
                else:
                    upstream.write(frame)
            await upstream.drain()

    async def _carry_replies(self, from_server: asyncio.StreamReader) -> None:
        frames = resp.Frames()
        while piece := await from_server.read(READ_BYTES):
            for frame in frames.feed(piece):
                if not resp.is_push(frame):
                    number = self._awaited.popleft()
                    assert isinstance(number, int)
                    if self._proxy.loses(number):
                        return
                self._writer.write(frame)
                self._give_own_answers()
            await self._writer.drain()

    def _give_own_answers(self) -> None:
        while self._awaited and isinstance(self._awaited[0], bytes):
            self._writer.write(self._awaited.popleft())  # type: ignore[arg-type]
