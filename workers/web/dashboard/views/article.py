"""One article, page or file: its text, where it comes from, how fresh it is, what changed, and what to do with it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from itertools import zip_longest
from pathlib import Path
from typing import Any

from aiohttp import web
from pydantic import Field

from core import ids
from core.errors import NotFound
from core.net.picture_fetch import NoPicture, fetch_picture
from core.pages.picture_type import PICTURE_TYPES
from core.registry import field_parsing
from core.search.io.stored_texts import StoredText, StoredTextReader
from workers.web.dashboard.formats import host, safe_url
from workers.web.dashboard.markdown_html import cut_text, render_markdown
from workers.web.dashboard.page_table import Done, PageTable
from workers.web.errors import ApiError
from workers.web.models import Flag, Name
from workers.web.routes import documents, items, maintenance, versions
from workers.web.routes.documents import ReindexItemRequest
from workers.web.routes.items import ItemDetailsAnswer, ItemRequest
from workers.web.routes.maintenance import ForgetRequest
from workers.web.routes.versions import DiffRequest, VersionAnswer
from workers.web.routing import Call

ROUTES = PageTable()
FACTS = "facts"
"""The part that is drawn again when something changes; it needs no text."""
STATUS_BADGES = {"Indexed": "good", "Crawled": "busy", "Pending": "busy", "Error": "bad"}
"""Everything else is quiet."""
PICTURE_SECONDS = 3_600


class ItemPageRequest(ItemRequest):
    """One item, and what is to be shown of it."""

    picture: Flag = False
    whole: Flag = Field(default=False, description="All of a long text.")
    older: Name = Field(default="", description="The version to compare with the one after it.")
    newer: Name = ""


class ArticlePageRequest(ItemPageRequest):
    """One article by its uid."""

    id: str = Field(alias="uid", pattern=r"^[0-9a-f]{16}$")


@ROUTES.page("/items/{id}", "Page", "article.html")
@ROUTES.page("/articles/{uid}", "Article", "article.html", request=ArticlePageRequest)
async def show_item(call: Call, asked: ItemPageRequest) -> dict[str, Any]:
    details, text = await read_item(call, asked.id)
    is_whole_page = call.http.headers.get("HX-Target") != FACTS
    known = await versions.list_versions(call, ItemRequest(id=details.id))
    body, left = cut_text(_without_title(text), whole=asked.whole) if text and is_whole_page else ("", 0)
    record = defaultdict(str, details.record)  # a damaged record may lack any field
    address = text.url if text else record["fetchUrl"]
    return {
        "title": _title(details, text),
        "details": details,
        "record": record,
        "text": text,
        "address": address,
        "body": await asyncio.to_thread(render_markdown, body, address) if body else "",
        "left": left,
        "feed_id": ids.feed_id(text.feed) if text and text.feed else "",
        "badge": STATUS_BADGES.get(record["status"], "quiet"),
        "next_check_ts": min((at for at in details.sources.values() if at is not None), default=None),
        "first_seen_ts": field_parsing.iso_timestamp(record["firstSeen"]),
        "is_in_search": record["status"] == "Indexed" and details.chunks > 0,
        "versions": _pairs(known.versions),
        "diff": await _diff(call, asked, details.id) if asked.older else None,
        "asked": asked,
        "has_picture": bool(text and safe_url(text.image)),
        "picture_host": host(text.image) if text else "",
    }


async def read_item(call: Call, name: str) -> tuple[ItemDetailsAnswer, StoredText | None]:
    """Return an item and its text, by its id or the uid of an article; raise a 404 for people."""
    text = await StoredTextReader(call.client, call.keys).find(name, Path("/"))
    try:
        return await items.show_item(call, ItemRequest(id=text.id if text else name)), text
    except NotFound:
        hint = "It may have expired or been forgotten. /why tells what became of its URL."
        raise ApiError(404, "not_found", f"There is nothing stored under {name}.", hint) from None


def _title(details: ItemDetailsAnswer, text: StoredText | None) -> str:
    return (text.title if text else "") or details.record.get("displaySource") or details.id


def _without_title(text: StoredText) -> str:
    """Return the text without a first heading that only repeats the title."""
    first, _, rest = text.markdown.lstrip().partition("\n")
    return rest if first.startswith("# ") and first[2:].strip() == text.title.strip() else text.markdown


def _pairs(known: list[VersionAnswer]) -> list[tuple[VersionAnswer, VersionAnswer | None]]:
    """Return each version with the one before it, if the texts of both are there and differ."""
    return [
        (one, old if old and one.has_text and old.has_text and one.content_hash != old.content_hash else None)
        for one, old in zip_longest(known, known[1:])
    ]


async def _diff(call: Call, asked: ItemPageRequest, item_id: str) -> dict[str, Any]:
    try:
        request = DiffRequest(id=item_id, older=asked.older, newer=asked.newer)
        return {"lines": (await versions.compare_versions(call, request)).lines, "problem": ""}
    except ApiError as error:
        return {"lines": [], "problem": error.sentence}


# ── what can be done with it ──


class ItemCheckRequest(ItemRequest):
    """Which item is to be checked, and whether it is read again in any case."""

    force: Flag = False


@ROUTES.add("GET", "/items/{id}/picture", other_types=PICTURE_TYPES)
async def show_picture(call: Call, asked: ItemRequest) -> web.Response:
    """Send the picture of an article, fetched by this server: its own server does not learn who looks."""
    _, text = await read_item(call, asked.id)
    url = safe_url(text.image) if text else ""
    if not url:
        raise ApiError(404, "not_found", "This text has no picture.")
    try:
        picture = await fetch_picture(call.context.fetcher, url)
    except NoPicture as error:
        raise ApiError(404, "no_picture", str(error)) from None
    headers = {"Cache-Control": f"private, max-age={PICTURE_SECONDS}"}
    return web.Response(body=picture.body, content_type=picture.content_type, headers=headers)


# ── actions ──


@ROUTES.action("/items/{id}/check")
async def check_item(call: Call, asked: ItemCheckRequest) -> Done:
    done = await documents.reindex(call, ReindexItemRequest(id=asked.id, force=asked.force))
    how = "It is read again now, whatever its server says" if asked.force else "It is checked now"
    return Done(done.queue_problem or f"{how}; this page shows what becomes of it.")


@ROUTES.action("/items/{id}/forget")
async def forget_item(call: Call, asked: ItemRequest) -> Done:
    done = await maintenance.forget(call, ForgetRequest(name=asked.id))
    comes_back = f" It comes back by {', '.join(done.comes_back_by)}." if done.comes_back_by else ""
    return Done(f"It is forgotten, with everything that belonged to it.{comes_back}", "/articles")
