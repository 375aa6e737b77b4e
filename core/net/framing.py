"""Ends an answer that is nearly all framing: endless interim answers, chunk extensions, chunks of one byte.

Body and time are capped elsewhere; between the two, such an answer burns a whole CPU until the timeout (measured:
15 s of CPU in 15 s), and everybody else waits.
"""

from __future__ import annotations

from typing import Any

from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import BadHttpMessage

FREE_BYTES = 1_000_000
"""Headers, trailers and interim answers of any honest server fit in here many times."""
BYTES_PER_BODY_BYTE = 2


class FrugalHandler(ResponseHandler):
    """aiohttp's own protocol of one connection, with a count of what arrives."""

    _received = 0

    def set_response_params(self, **params: Any) -> None:
        """A new request on this connection: count anew."""
        self._received = 0
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        """Hand the bytes on, or give up."""
        self._received += len(data)
        body = self._payload.total_bytes if self._payload is not None else 0
        if self._received <= FREE_BYTES + BYTES_PER_BODY_BYTE * body:
            super().data_received(data)
        else:
            self._give_up()

    def _give_up(self) -> None:
        error = BadHttpMessage("more framing than content")
        self.set_exception(error)
        if self._payload is not None:
            self._payload.set_exception(error)
        if self.transport is not None:
            self.transport.abort()
