"""A store with very many items, made by the server itself, and what processes and the server take of the CPU."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import redis

from bench import harness
from bench.harness import ROOT
from core.keys import Keys

ITEMS_AT_ONCE = 1_000
FEEDS = 10_000
BROKEN_FEEDS = 300
LINKS = 100_000
OPEN_RUNS = 10
TICKS = os.sysconf("SC_CLK_TCK")

# KEYS: refs, due, seen, indexed, partition · ARGV: first number, how many, now, head of record keys.
# Records as a crawl leaves them, as far as anything here reads them.
_FILL = """
local call, now = redis.call, tonumber(ARGV[3])
for n = tonumber(ARGV[1]), tonumber(ARGV[1]) + tonumber(ARGV[2]) - 1 do
  local id = string.format('url_%026d', n)
  local url = 'https://docs.example.org/' .. n
  local checked = now - (n * 7919) % 1209600
  call('HSET', ARGV[4] .. id, 'id', id, 'type', 'url', 'status', 'Indexed', 'sources', 'docs.site', 'fetchUrl', url,
    'normalizedSource', url, 'displaySource', url, 'sourceHost', 'docs.example.org', 'contentHash', 'h' .. n,
    'checkedTs', checked, 'verifiedTs', checked, 'verifiedBy', '304', 'changedTs', checked - 86400,
    'consecutiveFailures', n % 50 == 0 and 1 or 0)
  call('ZADD', KEYS[1], n % 20, id)
  call('ZADD', KEYS[2], checked + 1209600 - (n % 100 == 0 and 1300000 or 0), id)
  call('ZADD', KEYS[3], checked, id)
  call('SADD', KEYS[4], id)
  call('SADD', KEYS[5], id)
end
return 1
"""

# KEYS: feeds due, broken feeds, feeds and links of a category, history, open runs
# ARGV: how many feeds, broken, links, runs, now, heads of feed and run keys.
# What the overview of a large news desk reads beside its items: a day of history, feeds, links, runs.
_FILL_DESK = """
local call, feeds, broken, links, runs = redis.call, unpack(ARGV)
local now = tonumber(ARGV[5])
for n = 1, tonumber(feeds) do
  local id, url = string.format('%016x', n), 'https://news.example.org/' .. n .. '/feed.xml'
  call('ZADD', KEYS[1], now + n, id)
  call('SADD', KEYS[3], url)
  if n <= tonumber(broken) then
    call('HSET', ARGV[6] .. id, 'url', url, 'title', 'News ' .. n, 'status', 'error', 'error_text', 'HTTP 500',
      'error_since_ts', now - n, 'events', string.rep('2026-11-18T00:00:00Z 500 soft error ', 30))
    call('ZADD', KEYS[2], now - n, id)
  end
end
for n = 1, tonumber(links) do call('SADD', KEYS[4], 'https://news.example.org/story/' .. n) end
local first = math.floor(now / 60) - 1440
for n = 0, 1440 do
  call('XADD', KEYS[5], string.format('%.0f-0', (first + n) * 60000), 'p50', 40000 + n, 'p95', 400000 - n,
    'due_items', n, 'due_feeds', n, 'embed_waiting', n, 'queue_refresh', 3, 'queue_reindex', 0, 'queue_embed', 1,
    'articles', 100000 + n, 'items', 1000000, 'chunks', 3000000, 'polled', n * 80, 'links_new', n * 9,
    'stored', n * 7, 'links_failed', n, 'changed', n * 20, 'unchanged', n * 400, 'gone', n, 'failed', n * 3,
    'excluded', 0, 'indexed_pages', n * 21, 'written_chunks', n * 60)
end
for n = 1, tonumber(runs) do
  local id = 'jb_1763337600_' .. string.format('%08x', n)
  call('HSET', ARGV[7] .. id, 'id', id, 'kind', 'crawl', 'status', 'running', 'source', 'docs.s' .. n, 'progress', n,
    'message', 'Visiting pages', 'created_ts', now, 'started_ts', now, 'heartbeat_ts', now + 86400, 'visited', n)
  call('HSET', KEYS[6], 'source:docs.s' .. n, id)
end
return 1
"""


def fill(url: str, keys: Keys, items: int) -> None:
    """Make a domain with so many items, one in a hundred of them due."""
    with redis.Redis.from_url(url, socket_timeout=None) as client:
        client.config_set("appendonly", "no")
        client.config_set("save", "")
        now = time.time()
        sets = (keys.refs("docs.site"), keys.due("docs.site"), keys.seen("docs.site"))
        names = (*sets, keys.status("Indexed"), keys.partition("docs.example.org"))
        for first in range(0, items, ITEMS_AT_ONCE):
            count = min(ITEMS_AT_ONCE, items - first)
            client.eval(_FILL, len(names), *names, first, count, now, keys.item(""))
        client.sadd(keys.sources, "docs.site")
        client.sadd(keys.domains, "docs")
        client.hset(keys.source("docs.site"), mapping={"kind": "web", "last_listed_ts": now})
        client.hset(keys.domain("docs"), mapping={"id": "docs", "name": "docs", "sources": "docs.site", "config": "{}"})
        client.hset(keys.refresh_stats, mapping={"visited": items, "changed": items // 2, "unchanged": items // 2})
        desk = (keys.feeds_due, keys.feeds_broken, keys.feeds("world"), keys.category_links("world"))
        words = (FEEDS, BROKEN_FEEDS, LINKS, OPEN_RUNS, now, keys.feed(""), keys.run(""))
        client.sadd(keys.categories, "world")
        client.eval(_FILL_DESK, len(desk) + 2, *desk, keys.history, keys.runs_open, *words)


@contextlib.contextmanager
def api(redis_url: str, folder: Path, port: int, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """The real `workers.web` in its own process."""
    environment = {
        "REDIS_URL": redis_url,
        "PERSISTENT_STORAGE_PATH": str(folder),
        "API_BIND": f"127.0.0.1:{port}",
        "API_REQUESTS_PER_MINUTE": "0",
        "EMBEDDER": "none",
        "LOG_LEVEL": "WARNING",
    }
    command = [sys.executable, "-m", "workers.web"]
    process = subprocess.Popen(command, cwd=ROOT, env=os.environ | environment | more)
    try:
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/openapi.json", timeout=5).read()
                break
            time.sleep(0.1)
        yield process
    finally:
        process.terminate()
        process.wait()


def cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    """CPU seconds of a running process so far."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def server_cpu_seconds(url: str) -> float:
    """CPU seconds of the Redis server so far."""
    with redis.Redis.from_url(url) as client:
        return harness.server_cpu_seconds(client)
