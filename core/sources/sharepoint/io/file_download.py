"""Write the body of an answer to a file, and check that all of it came."""

from __future__ import annotations

from pathlib import Path

from requests import Response

from core.sources.sharepoint.io.sharepoint_session import ServerBusy, body_chunks
from core.sources.sharepoint.io.throttle_gate import ShouldStop
from core.sources.sharepoint.remote_items import SharePointStopped


def save_body(response: Response, target: Path, expected_size: int, should_stop: ShouldStop) -> int:
    """Write the body to `target` and return its size; `ServerBusy` if it is not as long as the listing says."""
    size = 0
    with target.open("wb") as file:
        for chunk in body_chunks(response):
            if should_stop():
                raise SharePointStopped
            size += len(chunk)
            if size > expected_size:
                break
            file.write(chunk)
    if size != expected_size:
        raise ServerBusy(
            f"The file has {'more than' if size > expected_size else 'only'} {min(size, expected_size)} of "
            f"{expected_size} bytes that were listed: it was cut short, or has changed meanwhile."
        )
    return size
