"""Download a file of SharePoint, and check that all of it came."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from requests import Response

from core.sources.sharepoint.io.sharepoint_requests import SiteRequests
from core.sources.sharepoint.io.sharepoint_session import ServerBusy, body_chunks
from core.sources.sharepoint.io.throttle_gate import ShouldStop
from core.sources.sharepoint.refusals import RequestRefused, download_advice
from core.sources.sharepoint.remote_items import DownloadFailed, RemoteItem, SharePointStopped, SharePointUnavailable

# A file that is being edited may be read all the same. Sizes are compared, so the body must come as it is.
_HEADERS = {"Prefer": "bypass-shared-lock", "Accept": "*/*", "Accept-Encoding": "identity"}
SLOWEST_BYTES_PER_SECOND = 10_000


def download_file(requests: SiteRequests, item: RemoteItem, target: Path, should_stop: ShouldStop) -> int:
    """Write the file to `target` and return its size; whatever prevents it, no half file stays."""

    def ask(address: str) -> int:
        with requests.answer(f"{address}/$value", **_HEADERS) as response:
            return _save(response, target, item.row.file_size, requests.timeout_seconds, should_stop)

    is_saved = False
    try:
        size = _by_id_or_path(requests, item, lambda address: requests.repeat(lambda: ask(address), should_stop))
        is_saved = True
        return size
    except RequestRefused as refused:
        raise DownloadFailed(download_advice(refused)) from refused
    except (SharePointUnavailable, OSError) as error:
        raise DownloadFailed(str(error)) from error
    finally:
        if not is_saved:
            target.unlink(missing_ok=True)


def _by_id_or_path(requests: SiteRequests, item: RemoteItem, ask: Callable[[str], int]) -> int:
    """Ask for a file by its id, which a new name does not change; by its path where the server knows no ids."""
    web = requests.context.web
    try:
        return ask(str(web.get_file_by_id(item.row.sharepoint_unique_file_id).resource_url))
    except RequestRefused as refused:
        if refused.status not in (400, 404):
            raise
        return ask(requests.file_address(item.row.server_relative_url))


def _save(response: Response, target: Path, listed_size: str, seconds: float, should_stop: ShouldStop) -> int:
    """Write the body to `target` and return its size; `ServerBusy` if it is not as long as the listing says.

    It may take ten time-outs of `seconds`, and as much longer as the file is large.
    """
    expected = int(listed_size) if listed_size.isascii() and listed_size.isdigit() else None
    size = 0
    with target.open("wb") as file:
        for chunk in body_chunks(response, 10 * seconds + (expected or 0) / SLOWEST_BYTES_PER_SECOND):
            if should_stop():
                raise SharePointStopped
            size += len(chunk)
            if expected is not None and size > expected:
                break
            file.write(chunk)
    if expected is not None and size != expected:
        found = f"more than {expected}" if size > expected else f"only {size} of {expected}"
        raise ServerBusy(f"The file has {found} bytes that were listed: it was cut short, or has changed meanwhile.")
    return size
