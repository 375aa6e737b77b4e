"""Check that each job of RQ's queues is in one place, and that none was taken and never begun."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import cast

from rq.job import Job
from rq.queue import Queue
from rq.serializers import JSONSerializer

from core.doctor.invariants import Finding, Problem
from core.runtime import queue_cleanup
from core.runtime.queue_names import QueueName, rq_queue_name
from core.settings import Settings
from core.store import connect

TAKEN_SECONDS = 60

# KEYS queue, taken, started, then scheduled, deferred, failed, finished · ARGV how job keys begin, before when a job
# was sent that counts as stuck, then jobs to repair (none: only check). Pairs of what is wrong (m, s) and a job.
_LOOK = """
local call = redis.call
local found, chosen, is_fixing = {}, {}, #ARGV > 2
for i = 3, #ARGV do chosen[ARGV[i]] = true end
local function fits(key, kind) local there = call('TYPE', key).ok; return there == kind or there == 'none' end
local function report(what, id)
  if is_fixing and not chosen[id] then return false end
  found[#found + 1] = what
  found[#found + 1] = id
  return is_fixing
end
local function is_job(id) return call('TYPE', ARGV[1] .. id).ok == 'hash' end
local seen = {}
if fits(KEYS[1], 'list') then
  for _, id in ipairs(call('LRANGE', KEYS[1], 0, -1)) do
    if not is_job(id) or seen[id] then
      if report('m', id) then call('LREM', KEYS[1], -1, id) end
    else
      for i = 4, 7 do
        if fits(KEYS[i], 'zset') and call('ZSCORE', KEYS[i], id) then
          if report('m', id) then call('ZREM', KEYS[i], id) end
        end
      end
    end
    seen[id] = true
  end
end
local running = {}
if fits(KEYS[3], 'zset') then
  for _, member in ipairs(call('ZRANGE', KEYS[3], 0, -1)) do
    local id = string.match(member, '^([^:]+)') or member
    running[id] = true
    local status = is_job(id) and call('HGET', ARGV[1] .. id, 'status')
    if not status or status == 'finished' then
      if report('m', id) then call('ZREM', KEYS[3], member) end
    end
  end
end
if fits(KEYS[2], 'list') then
  for _, id in ipairs(call('LRANGE', KEYS[2], 0, -1)) do
    local sent = is_job(id) and (call('HGET', ARGV[1] .. id, 'enqueued_at') or '')
    if not sent then
      if report('s', id) then call('LREM', KEYS[2], 0, id) end
    elseif sent < ARGV[2] and not running[id] then
      if report('s', id) then
        call('LREM', KEYS[2], 0, id)
        if not seen[id] and fits(KEYS[1], 'list') then
          call('HSET', ARGV[1] .. id, 'status', 'queued')
          call('LPUSH', KEYS[1], id)
        end
      end
    end
  end
end
return found
"""


class QueueChecks:
    """Checks the three queues, in a thread, since RQ's own client is synchronous."""

    problems = frozenset({Problem.JOB_MISPLACED, Problem.JOB_STUCK, Problem.QUEUE_TYPE})

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def check(self) -> list[Finding]:
        """Check all of them; `place` is the queue."""
        return await asyncio.to_thread(self._check)

    def _check(self) -> list[Finding]:
        return [finding for name in QueueName for finding in self._run(name, ())]

    async def recheck(self, findings: Sequence[Finding]) -> list[Finding]:
        return [one for one in await self.check() if one in findings]

    async def repair(self, findings: Sequence[Finding], now: float) -> None:
        await asyncio.to_thread(self._repair, findings)

    def _repair(self, findings: Sequence[Finding]) -> None:
        for name in QueueName:
            here = [one for one in findings if one.place == str(name)]
            with closing(connect.open_queue(self._settings)) as client:
                client.put_aside([one.name for one in here if one.problem is Problem.QUEUE_TYPE])
            jobs = [one.name for one in here if one.problem is not Problem.QUEUE_TYPE]
            if jobs:
                self._run(name, jobs)

    def _run(self, name: QueueName, jobs: Sequence[str]) -> list[Finding]:
        with closing(connect.open_queue(self._settings)) as client:
            queue = Queue(rq_queue_name(self._settings, name), connection=client, serializer=JSONSerializer)
            places = (queue.scheduled_job_registry, queue.deferred_job_registry, queue.failed_job_registry)
            keys = [queue.key, queue.intermediate_queue_key, queue.started_job_registry.key]
            keys += [*(place.key for place in places), queue.finished_job_registry.key]
            before = (datetime.now(UTC) - timedelta(seconds=TAKEN_SECONDS)).isoformat()
            mistyped = client.mistyped(queue_cleanup.queue_keys(queue))
            reply = client.eval(_LOOK, len(keys), *keys, Job.redis_job_namespace_prefix, before, *jobs)
        words = [word.decode("utf-8", "surrogateescape") for word in cast(list[bytes], reply)]
        kinds = {"m": Problem.JOB_MISPLACED, "s": Problem.JOB_STUCK}
        jobs_found = [Finding(kinds[what], job, str(name)) for what, job in zip(words[::2], words[1::2], strict=True)]
        return [*(Finding(Problem.QUEUE_TYPE, key, str(name)) for key in mistyped), *jobs_found]
