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

from bench.harness import ROOT
from core.keys import Keys

ITEMS_AT_ONCE = 1_000
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
        info = client.info("cpu")
        return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])
