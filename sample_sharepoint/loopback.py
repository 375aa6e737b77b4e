"""HTTP on loopback in threads: one function answers every request, and an answer may be cut, wrong or missing."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

HOST = "127.0.0.1"
JSON = "application/json;odata=verbose;charset=utf-8"


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came in."""

    method: str
    target: str
    """Path and query, encoded as they were sent."""
    headers: dict[str, str]
    """By name in lower case."""
    body: bytes
    origin: str
    """Scheme, host and port that it was sent to."""

    @property
    def path(self) -> str:
        """The path, decoded."""
        return unquote(self.target.partition("?")[0])

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, and what goes wrong with it."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut_at: int | None = None
    """Send only so many bytes of the body, then close the connection."""
    declared_length: int | None = None
    """Say this length instead of the true one."""
    is_dropped: bool = False
    """Close the connection without an answer."""

    @classmethod
    def of_json(cls, value: Any, status: int = 200, content_type: str = JSON, **headers: str) -> Self:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return cls(status, json.dumps(value).encode(), {"Content-Type": content_type, **named})


Answer = Callable[[Request], Reply]


class LoopbackServer:
    """Serves until it is closed; then open connections are closed too."""

    def __init__(self, answer: Answer, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self._server = _Server((HOST, port), _Handler)
        self._server.answer = answer
        self._server.origin = f"{'https' if tls else 'http'}://{HOST}:{self._server.server_address[1]}"
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        # The pause between two looks whether to end; closing waits for it.
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def origin(self) -> str:
        return self._server.origin

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        for connection in list(self._server.connections):
            _close(connection)


def _close(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the client was first


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    answer: Answer
    origin: str

    def __init__(self, *arguments: Any) -> None:
        self.connections: set[socket.socket] = set()
        super().__init__(*arguments)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server
    server_version = "Microsoft-IIS/10.0"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        super().finish()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Keep no log of requests."""

    def _serve(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", "0") or 0))
        reply = self.server.answer(Request(self.command, self.path, headers, body, self.server.origin))
        if reply.is_dropped:
            self.close_connection = True
            _close(self.connection)
            return
        length = len(reply.body) if reply.declared_length is None else reply.declared_length
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body[: reply.cut_at])
        if reply.cut_at is not None or length != len(reply.body):
            self.close_connection = True

    do_GET = do_POST = do_HEAD = do_DELETE = do_PUT = _serve
