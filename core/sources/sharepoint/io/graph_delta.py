"""Ask Microsoft Graph whether anything in a drive has changed since a point that it named."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from core.sources.sharepoint.odata import origin_of
from core.sources.sharepoint.refusals import RequestRefused
from core.sources.sharepoint.remote_items import SharePointUnavailable
from core.value_class import value_class

MOST_PAGES = 20
GONE = 410
_LINK_CHARS = 8_000

log = logging.getLogger("crawler")

Ask = Callable[[str], Any]


@value_class
class DriveState:
    is_unchanged: bool
    """Nothing has changed since the link that was given. False also means: Graph does not know."""
    link: str
    """Where it tells what changes from now on; empty if it does not say."""


def drive_state(ask: Ask, graph_url: str, drive_id: str, link: str) -> DriveState:
    """Return whether the drive is as it was when Graph gave the link. Trouble is no exception: it means "list it"."""
    drive = f"{graph_url.rstrip('/')}/v1.0/drives/{quote(drive_id, safe='!')}/root/delta"
    try:
        is_unchanged = bool(link) and _is_unchanged(ask, drive, link)
        # A new link is needed only after a change; it must be older than the listing that follows.
        return DriveState(True, link) if is_unchanged else DriveState(False, _link(ask(f"{drive}?token=latest")))
    except (RequestRefused, SharePointUnavailable) as error:
        log.warning("⚠️ Microsoft Graph does not tell what changes, so the library is listed: %s → %s", error, drive_id)
        return DriveState(False, "")


def _is_unchanged(ask: Ask, drive: str, link: str) -> bool:
    for _ in range(MOST_PAGES):
        if not _is_of(drive, link):
            return False
        try:
            answer = ask(link)
        except RequestRefused as refused:
            # It has forgotten that point: everything is compared, and nothing thrown away.
            if refused.status == GONE:
                return False
            raise
        entries = answer.get("value") if isinstance(answer, Mapping) else None
        if not isinstance(entries, list) or any(not _is_root(entry) for entry in entries):
            return False
        link = _text(answer, "@odata.nextLink")
        if not link:
            return bool(_link(answer))
    return False


def _is_of(drive: str, link: str) -> bool:
    """Return whether the link leads to this drive. The token goes with it."""
    try:
        is_same = origin_of(link) == origin_of(drive)
        return is_same and urlsplit(link).path.startswith(urlsplit(drive).path) and len(link) <= _LINK_CHARS
    except ValueError:
        return False


def _is_root(entry: object) -> bool:
    """Return whether it is the drive itself, which comes with every answer. What changed in it comes beside it."""
    return isinstance(entry, Mapping) and "root" in entry and "deleted" not in entry


def _link(answer: object) -> str:
    return _text(answer, "@odata.deltaLink")


def _text(answer: object, name: str) -> str:
    value = answer.get(name) if isinstance(answer, Mapping) else None
    return value if isinstance(value, str) else ""
