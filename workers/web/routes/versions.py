"""The history of an item's text: its versions, and what changed between two of them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from pydantic import Field

from core.errors import NotFound
from core.registry.io.item_queries import ItemQueries
from core.registry.io.version_store import VersionStore
from core.registry.text_diff import MOST_CHARS, MOST_LINES, DiffLine, diff_texts
from workers.web.errors import ApiError
from workers.web.models import AnswerModel, Name, shown
from workers.web.routes.items import ItemRequest
from workers.web.routing import Call, RouteTable

ROUTES = RouteTable("items")
NOT_KEPT = "Texts of earlier versions are kept for SNAPSHOT_DAYS, which is 0 unless somebody has set it."


class VersionAnswer(AnswerModel):
    """One version of a text."""

    content_hash: str
    title: str
    text_len: int
    changed_ts: float = Field(description="When it was first read; 0: not known.")
    replaced_ts: float | None = Field(description="When the next version was read; null: this is the present one.")
    has_text: bool = Field(description="Its text is there and can be compared.")


class VersionsAnswer(AnswerModel):
    """The last ten versions, newest first."""

    id: str
    versions: list[VersionAnswer]


class DiffRequest(ItemRequest):
    """Two versions of a text."""

    older: Name = Field(min_length=1, description="The content hash of the version to start from.")
    newer: Name = Field(default="", description="That of the other one; empty: the present one.")


shown(DiffLine, "DiffLineAnswer")


class DiffAnswer(AnswerModel):
    """What changed between two versions."""

    id: str
    older: str
    newer: str
    lines: list[DiffLine]


@ROUTES.add("GET", "/api/items/{id}/versions")
async def list_versions(call: Call, asked: ItemRequest) -> VersionsAnswer:
    """The last ten versions of an item's text: when, which hash, which title."""
    item_id = await _item_id(call, asked.id)
    history = await _store(call).history(item_id)
    versions = [VersionAnswer(**asdict(one), has_text=one.content_hash in history.kept) for one in history.versions]
    return VersionsAnswer(id=item_id, versions=versions)


@ROUTES.add("GET", "/api/items/{id}/diff")
async def compare_versions(call: Call, asked: DiffRequest) -> DiffAnswer:
    """What changed between two versions of an item's text.

    Texts of earlier versions are kept for SNAPSHOT_DAYS; without that setting there are only hashes.
    """
    item_id = await _item_id(call, asked.id)
    store = _store(call)
    newer = asked.newer or next((one.content_hash for one in (await store.history(item_id)).versions), "")
    texts = await store.texts(item_id)
    for content_hash in (asked.older, newer):
        if content_hash not in texts:
            raise ApiError(404, "not_found", f"There is no text of version {content_hash[:12]}.", NOT_KEPT)
    lines = diff_texts(texts[asked.older], texts[newer])
    if lines is None:
        most = f"Texts of up to {MOST_LINES:,} lines and {MOST_CHARS:,} characters are compared."
        raise ApiError(409, "too_long", "These versions are too long to be compared.", most)
    return DiffAnswer(id=item_id, older=asked.older, newer=newer, lines=lines)


def _store(call: Call) -> VersionStore:
    return VersionStore(call.client, call.keys)


async def _item_id(call: Call, name: str) -> str:
    """Return the id of an item by its id or the uid of its article."""
    resolved = await ItemQueries(call.client, call.keys).resolve(name, Path("/"))
    if not resolved.item_id:
        raise NotFound(f"{name} is not in the registry. GET /api/items/why?url=… says what became of a URL.")
    return resolved.item_id
