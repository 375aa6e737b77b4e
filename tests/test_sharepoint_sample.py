"""The sample SharePoint can be read with no account, and what opens the real one is never sent to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from core.settings import Settings
from core.sources.sharepoint.io import sample_server
from core.sources.sharepoint.io.sharepoint_client import SharePointSite
from core.sources.sharepoint.remote_items import SharePointUnavailable
from sample_sharepoint import harbour
from sample_sharepoint.loopback import LoopbackServer, Reply, Request
from sample_sharepoint.service import SharePointService


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
    sample_server.write_url(settings, sample.server.origin)
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
    sample_server.write_url(settings, "http://127.0.0.1:9")
    asked = len(sample.requests)
    with pytest.raises(SharePointUnavailable, match="FETCH_ALLOWED_HOSTS"):
        next(iter(SharePointSite.open(settings, sample.site_url).library(harbour.LIBRARY_PATH)))
    assert len(sample.requests) == asked
