"""SharePoint: a first crawl of a library, and a second one that finds nothing new, as a person starts them.

The library is on loopback, in another process. Also asked: how much memory does a crawl need at more and more files?

    python -m bench.sharepoint [--files N] [--memory]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from bench.harness import Figures, measured, serving
from core.store import embedded
from sample_sharepoint import columns
from sample_sharepoint.loopback import LoopbackServer, Reply, Request
from sample_sharepoint.model import LIBRARY
from sample_sharepoint.service import SharePointService
from sample_sharepoint.tenant import Tenant

DOMAIN = "BENCH01"
TEXT = "The gauge at the weir was read at noon, and the water had risen again since the morning. "


def serve(files: int) -> None:
    """Serve a library of so many files; say at the end how many listings and downloads there were."""
    tenant = Tenant()
    site = tenant.add_site("/sites/bench", "Bench")
    library = tenant.add_list(site, "Documents", "Shared Documents", LIBRARY, [*columns.COMMON, *columns.OF_LIBRARIES])
    for number in range(files):
        content = f"# Reading {number}\n\n{TEXT * 5}Reading {number}.".encode()
        tenant.add_file(library, f"{number // 500:04}/{number}.md", content)
    service, counts = SharePointService(tenant), {"listings": 0, "downloads": 0}

    def answer(request: Request) -> Reply:
        path = request.path.lower()
        counts["listings"] += path.endswith("/items")
        counts["downloads"] += path.endswith("/$value")
        return service.answer(request)

    server = LoopbackServer(answer)
    print(json.dumps({server.origin: 0}), flush=True)
    sys.stdin.readline()
    server.close()
    print(json.dumps(counts), file=sys.stderr)


def write_domain(storage: Path, origin: str) -> None:
    source = {"source_id": "docs", "site_url": f"{origin}/sites/bench", "sharepoint_url_part": "/Shared Documents"}
    path = storage / "domains" / DOMAIN / "domain.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"name": "Bench", "file_sources": [source]}))


def crawl_twice(files: int, folder: Path) -> tuple[Figures, Figures]:
    """Crawl a new library, then once more."""
    storage = folder / f"storage{files}"
    server = embedded.start(folder / f"redis{files}", embedded.free_port(0))
    environment = {
        "REDIS_URL": server.url,
        "PERSISTENT_STORAGE_PATH": str(storage),
        "SHAREPOINT_ACCESS_TOKEN": "T",
        "FETCH_ALLOWED_HOSTS": "127.0.0.0/8",
        "LOG_LEVEL": "ERROR",
        "EMBEDDER": os.environ.get("EMBEDDER", "none"),
    }
    with serving("bench.sharepoint", "--serve", str(files)) as origins:
        write_domain(storage, next(iter(origins)))
        first = measured("scripts.domain", "crawl", DOMAIN, **environment)
        second = measured("scripts.domain", "crawl", DOMAIN, **environment)
    server.stop()
    shutil.rmtree(storage)
    return first, second


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=2_000)
    parser.add_argument("--memory", action="store_true", help="at 1,000 and 100,000 files")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
        return
    counts = (1_000, 100_000) if given.memory else (given.files,)
    print(f"\n{'':24}{'CPU s':>9}{'wall s':>9}{'peak MB':>9}{'ratio':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for files in counts:
            first, second = crawl_twice(files, Path(folder))
            for name, took in ((f"first, {files:,} files", first), ("nothing new", second)):
                ratio = first.cpu_seconds / took.cpu_seconds
                print(f"{name:24}{took.cpu_seconds:9.1f}{took.wall_seconds:9.1f}{took.peak_mb:9.0f}{ratio:7.1f}x")


if __name__ == "__main__":
    main()
