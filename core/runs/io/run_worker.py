"""One worker of a run: joins it, sends heartbeats, reports progress, obeys a pause or a cancel, and leaves.

Several processes may work on one run. Each beats every few seconds: that shows that it is alive, writes what it has in
flight, reports progress, hands over what it logged, and tells it what is asked of it. Between two heartbeats it looks
twice a second whether it should stop, so `should_stop` costs nothing between two items.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from redis.exceptions import RedisError

from core.errors import FreshetError
from core.runs.io.run_store import RunStore
from core.runs.run import ENDED, Run, RunPhase, RunStatus
from core.runs.run_request import RunReply, RunRequest
from core.runtime import interruptible, log_capture, process_identity
from core.runtime.log_capture import LogLines
from core.store import cancellation
from core.store.clock import ServerClock
from core.store.leases import new_token
from core.urls.secrets import redact

log = logging.getLogger("refresh")

BEAT_SECONDS = 3.0
LOOK_SECONDS = 0.5
"""How often a worker looks between two heartbeats whether it should stop."""
WAIT_SECONDS = 1.0
"""How often a worker that stays during a pause looks whether it is over."""
MOST_PERCENT = 99
"""Only the end is 100."""
Tell = Callable[[float], Awaitable[Mapping[str, str]]]
"""Returns fields of the run for the next heartbeat, at this time."""


class RunWorker:
    """Works on one run. `requested` is what the last heartbeat learnt."""

    def __init__(self, runs: RunStore, clock: ServerClock, run: Run, lease_prefix: str = "") -> None:
        """`lease_prefix`: of the leases that this process takes, so that they can be taken back from a dead one."""
        self._runs = runs
        self._lease_prefix = lease_prefix
        self._clock = clock
        self.run = run
        self.token = new_token()
        self.requested = RunRequest.NONE
        self.failed_items = 0
        """How many items of the run were remembered as failed when it was last asked."""
        self.in_flight: Callable[[], int] = lambda: 0
        self.tell: Tell | None = None
        self.is_job = False
        """Whether it is a refresh job, which may help a crawl that another worker lists and ends."""
        self.is_waiting = False
        """Whether all of its work waits for the end of a pause."""
        self.is_shared = False
        """Do others work on it in the same way? Then the last one ends it."""
        self.is_done = False
        """Whether nothing is left to do, even if a pause is asked for now."""
        self.left_as = RunStatus.INTERRUPTED
        """The status of the run if it is left before its end and no other worker has it."""
        self.end = RunStatus.SUCCEEDED
        self.end_fields: dict[str, str] = {}
        self._told: dict[str, str] = {}
        self._metrics: dict[str, float] = {}
        self._lines = LogLines()
        self._stop = asyncio.Event()
        self._beating = asyncio.Lock()

    # ── joining and leaving ──

    async def join(self) -> RunRequest:
        """Join the run; anything but NONE says why it may not be worked on now."""
        self._obey(await self._step("join"))
        return self.requested

    async def leave(self, status: RunStatus | None = None) -> RunReply:
        """Leave the run; the last to leave completes a pause or a cancel. `status`: what it is without us, if open."""
        return await self._step("leave", status=str(status or ""))

    async def finish(self, status: RunStatus, fields: Mapping[str, str] | None = None) -> None:
        await self._step("finish", status=str(status), fields=fields)

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Beat while the block runs, collect what it logs, and give up its waits when a pause or cancel is asked."""
        beats = asyncio.create_task(self._beat_forever())
        try:
            with interruptible.listen(self._stop), log_capture.capture(self._lines):
                yield
        finally:
            await cancellation.cancel_and_wait(beats)

    async def wait_while_paused(self, should_stop: Callable[[], bool] = lambda: False) -> RunRequest:
        """Acknowledge a pause and stay until it ends; NONE: it has, and we have joined again."""
        resumable = self.run.parent or self.run.id
        log.info("⏸️ %s is paused; python -m scripts.runs resume %s goes on", self.run.scope, resumable)
        while self.requested is RunRequest.PAUSE and not should_stop():
            with contextlib.suppress(RedisError, OSError):  # the server may be restarted during a pause
                await self._wait_once()
            if self.should_stop():
                await asyncio.sleep(WAIT_SECONDS)
        return self.requested

    async def _wait_once(self) -> None:
        self._obey(await self._step("wait", is_waiting=True))
        if not self.should_stop():
            await self.join()

    @contextlib.asynccontextmanager
    async def whole_pass(self) -> AsyncIterator[None]:
        """Work on a run that this worker ends: as `end` and `end_fields` say, or as failed after an error.

        Paused, cancelled or interrupted, it is only left; so it is with an `end` that is none. Join first.
        """
        try:
            async with self.working():
                yield
        except (FreshetError, OSError) as error:
            with contextlib.suppress(RedisError, OSError):
                await cancellation.finish(self.finish(RunStatus.FAILED, {"error": redact(str(error))}))
            raise
        except BaseException:  # stopped, or the server is away: someone goes on with it
            with contextlib.suppress(RedisError, OSError):
                await cancellation.finish(self.leave(self.left_as))
            raise
        if self.should_stop() or self.end not in ENDED:
            await self.leave(self.end if self.end not in ENDED else None)
        elif not self.is_shared or await self._is_last():
            await self.finish(self.end, self.end_fields)

    async def _is_last(self) -> bool:
        """Leave; return whether no other worker has the run."""
        reply = await self.leave()
        return reply.working + reply.waiting == 0

    def now(self) -> float:
        return self._clock.now()

    # ── between items ──

    def should_stop(self) -> bool:
        """Return whether a pause or cancel was asked for, or the run has ended without us."""
        return self.requested is not RunRequest.NONE

    def report(
        self, phase: RunPhase, percent: float, message: str = "", metrics: Mapping[str, float] | None = None
    ) -> None:
        """Tell how far the run is; written with the next heartbeat. Percent and phase never run backwards."""
        self._told |= {
            "phase": str(phase),
            "progress": str(min(max(int(percent), 0), MOST_PERCENT)),
            "message": message,
        }
        if metrics:
            self._metrics.update(metrics)
            self._told["metrics"] = json.dumps(self._metrics)

    async def beat(self) -> None:
        """Write the heartbeat and learn what is asked."""
        async with self._beating:
            fields = dict(self._told)
            if self.tell:
                fields |= await self.tell(self._clock.now())
            self._obey(await self._step("beat", fields=fields))

    async def _beat_forever(self) -> None:
        while not cancellation.is_cancelled():
            with contextlib.suppress(RedisError, OSError):  # the work meets the same trouble and reports it
                await self._wait_for_next_beat()
                await self.beat()

    async def _wait_for_next_beat(self) -> None:
        """Wait until a heartbeat is due, or until someone asks for a pause or a cancel that we do not know of."""
        looks = max(round(BEAT_SECONDS / LOOK_SECONDS), 1)
        for _ in range(looks):
            await asyncio.sleep(BEAT_SECONDS / looks)
            if not self.should_stop() and await self._runs.is_stop_asked(self.run):
                return

    # ── steps ──

    async def _step(
        self, what: str, *, status: str = "", fields: Mapping[str, str] | None = None, is_waiting: bool = False
    ) -> RunReply:
        now, lines = self._clock.now(), self._lines.take()
        is_waiting = is_waiting or self.is_waiting
        worker = {
            "ts": round(now, 3),
            "in_flight": 0 if is_waiting else self.in_flight(),
            "host": socket.gethostname(),
            "process": process_identity.own_identity(),
            "leases": self._lease_prefix,
            **({"waiting": True} if is_waiting else {}),
            **({"is_job": True} if self.is_job else {}),
        }
        try:
            reply = await self._runs.step(
                what, self.run, now, token=self.token, worker=worker, fields=fields, status=status, lines=lines
            )
        except BaseException:
            self._lines.put_back(lines)
            raise
        self.failed_items = reply.failed_items
        return reply

    def _obey(self, reply: RunReply) -> None:
        self.requested = reply.request
        if self.should_stop():
            self._stop.set()
        else:
            self._stop.clear()
