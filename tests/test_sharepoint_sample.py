"""The sample SharePoint can be read with no account, and what opens the real one is never sent to it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.secret_text import SecretStr
from core.settings import Settings
from core.sources.sharepoint.io import sample_server
from core.sources.sharepoint.io.sharepoint_client import SharePointSite
from core.sources.sharepoint.remote_items import SharePointUnavailable
from sample_sharepoint import harbour
from sample_sharepoint.loopback import LoopbackServer, Reply, Request
from sample_sharepoint.service import SharePointService
from tests import ports

ROOT = Path(__file__).parents[1]
PATIENCE_SECONDS = 90.0


class SampleServer:
    """The sample, and what it was asked."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._service = SharePointService(harbour.build_tenant())
        self.server = LoopbackServer(self._answer)
        self.site_url = f"{self.server.origin}{harbour.SITE}"

    def _answer(self, request: Request) -> Reply:
        self.requests.append(request)
        return self._service.answer(request)


@pytest.fixture(scope="module")
def sample() -> Iterator[SampleServer]:
    running = SampleServer()
    yield running
    running.server.close()


def test_sample_is_read_without_an_account(sample: SampleServer, tmp_path: Path) -> None:
    """With its address in the folder, the sample's files, rows and pages are listed by settings that allow nothing."""
    settings = Settings(persistent_storage_path=tmp_path, sharepoint_access_token=SecretStr("the real one"))
    sample_server.ADDRESS.write(settings, sample.server.origin)
    site = SharePointSite.open(settings, sample.site_url)
    files = [item for page in site.library(harbour.LIBRARY_PATH) for item in page]
    rows = [item for page in site.list_items(harbour.LIST_NAME, "") for item in page]
    pages = [item for page in site.pages(harbour.PAGES_PATH, "") for item in page]
    target = tmp_path / "copy"
    site.download(files[0], target, lambda: False)
    site.close()

    assert (len(files), len(rows), len(pages)) == (13, 3, 2)
    assert target.stat().st_size == int(files[0].row.file_size)
    assert {one.headers.get("authorization") for one in sample.requests} == {"Bearer sample"}


def test_another_server_on_loopback_is_not_the_sample(sample: SampleServer, tmp_path: Path) -> None:
    """Only the address in the folder is allowed; without it the sample is a private host like any other."""
    settings = Settings(persistent_storage_path=tmp_path, sharepoint_access_token=SecretStr("the real one"))
    sample_server.ADDRESS.write(settings, "http://127.0.0.1:9")
    asked = len(sample.requests)
    with pytest.raises(SharePointUnavailable, match="FETCH_ALLOWED_HOSTS"):
        next(iter(SharePointSite.open(settings, sample.site_url).library(harbour.LIBRARY_PATH)))
    assert len(sample.requests) == asked


# ── ./scripts/up --sample-sharepoint ──


class Checkout:
    """Commands of this checkout on a folder of their own, with a feed of its own instead of the sample newspaper."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "feeds.toml").write_text('[categories]\nmine = ["http://127.0.0.1:9/feed"]\n')
        (folder / sample_server.ADDRESS.name).write_text(f"http://127.0.0.1:{ports.take()}\n")
        self.environment = (
            {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG", "PYTHONPATH"}}
            | {"PERSISTENT_STORAGE_PATH": str(folder), "FEEDS_FILE": str(folder / "feeds.toml"), "EMBEDDER": "none"}
            | ports.for_up(folder)
        )

    def run(self, *words: str) -> str:
        """Run a command to its end; return what it printed."""
        command = [sys.executable, "-m", *words]
        done = subprocess.run(
            command, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=180, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    @contextlib.contextmanager
    def up(self) -> Iterator[None]:
        """`up` beside the commands, until its sample answers."""
        with (self.folder / "up.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "scripts.launch"], cwd=ROOT, env=self.environment, stdout=log, stderr=log
            )
        try:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while "Serving the sample SharePoint" not in (self.folder / "up.log").read_text():
                assert process.poll() is None, (self.folder / "up.log").read_text()
                assert time.monotonic() < deadline, (self.folder / "up.log").read_text()
                time.sleep(0.1)
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE_SECONDS)


def _maps(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*_map.csv"))}


@pytest.mark.long
def test_up_crawls_the_sample(tmp_path: Path) -> None:
    """One `up --once --sample-sharepoint` copies and indexes files, rows and pages with no account; from then on every
    `up` serves it, and crawling it again changes nothing."""
    checkout = Checkout(tmp_path)
    once = checkout.run("scripts.launch", "--once", "--sample-sharepoint")
    copies = tmp_path / "crawler" / "sample-sharepoint"
    first = _maps(copies)
    with checkout.up():
        listed = {one["id"]: one for one in json.loads(checkout.run("scripts.domain", "list", "--json"))}
        checkout.run("scripts.domain", "crawl", "sample-sharepoint")
        found = checkout.run("scripts.search", "broken strands of the cable", "--domain", "sample-sharepoint")

    assert "sample-sharepoint.documents" in once
    assert "Traceback" not in once + (tmp_path / "up.log").read_text()
    assert len(first) == 9
    assert (copies / "01_files/documents/02_embedded/Handbook/Lost & found – what's where.txt").is_file()
    assert not (copies / "01_files/documents/02_embedded/Berths.csv").exists()
    assert "- **Cost in crowns:** 4,300.0" in (copies / "02_lists/repairs/02_embedded/1.md").read_text()
    assert "Bicycles travel free" in (copies / "03_sitepages/pages/02_embedded/Ferry.html").read_text()
    assert sum(source["items"] for source in listed["sample-sharepoint"]["sources"]) == 17
    assert _maps(copies) == first
    assert "Worn cable of the crane" in found
