"""The progress of one run as server-sent events, until its end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from aiohttp import web
from pydantic import BaseModel
from redis.exceptions import RedisError

from core.store import connect
from workers.web.job_models import job_of
from workers.web.routing import Call, encoded
from workers.web.services import Services
from workers.web.sse import empty_stream, event_response

POLL_SECONDS = 0.5


async def stream_jobs(call: Call, job_ids: Sequence[str], first: BaseModel | None = None) -> web.StreamResponse:
    """Send `job` whenever a run changes, `log` for each line of its log, and `end` at its end; one run after the other.

    `first` is sent before, as `result`.
    """
    if call.is_head:
        return empty_stream()
    services = call.services
    async with event_response(call.http) as (response, writer):
        if first is not None:
            await writer.write(f"event: result\ndata: {first.model_dump_json()}\n\n".encode())
        for job_id in job_ids:
            await writer.write_all(_JobWatch(services, job_id).next_piece)
        if not job_ids:
            await writer.write(b"event: end\ndata: {}\n\n")
    return response


class _JobWatch:
    """What is new of a run since the last look."""

    def __init__(self, services: Services, job_id: str) -> None:
        self._services = services
        self._job_id = job_id
        self._shown = ""
        self._last_line = ""
        self._has_ended = False
        self._count = 0

    async def next_piece(self) -> bytes | None:
        """Wait until there is something new and return it; None after the end."""
        while not self._has_ended and not self._services.events.is_closed:
            try:
                piece = await self._look()
            except (RedisError, OSError):
                piece = ""  # the stream outlives a server that is away for a while
            if piece:
                return piece.encode()
            await asyncio.sleep(POLL_SECONDS)
        return None

    async def _look(self) -> str:
        runs = self._services.context.runs
        run = await runs.read(self._job_id, await connect.now(self._services.client))
        lines = new_lines(await runs.log_lines(self._job_id), self._last_line)
        self._last_line = lines[-1] if lines else self._last_line
        text = "".join(self._event("log", json.dumps({"line": line})) for line in lines)
        shown = encoded(job_of(run)).decode() if run else self._shown
        if shown != self._shown:
            self._shown = shown
            text += self._event("job", shown)
        if run is None or not run.is_open:
            self._has_ended = True
            text += self._event("end", shown or "{}")
        return text

    def _event(self, name: str, data: str) -> str:
        self._count += 1
        return f"id: {self._count}\nevent: {name}\ndata: {data}\n\n"


def new_lines(lines: Sequence[str], last: str) -> Sequence[str]:
    """Return the lines after the last one that was seen; all, if that has left the log since."""
    for place in range(len(lines) - 1, -1, -1):
        if lines[place] == last:
            return lines[place + 1 :]
    return lines
