"""Actions on one article or page: show its picture, check it, read it again, forget it."""

from __future__ import annotations

from aiohttp import web

from core.net.picture_fetch import NoPicture, fetch_picture
from core.pages.picture_type import PICTURE_TYPES
from workers.web.dashboard.formats import safe_url
from workers.web.dashboard.pages import Done, PageTable
from workers.web.dashboard.views.article import read_item
from workers.web.errors import ApiError
from workers.web.item_models import ItemRequest
from workers.web.models import Flag
from workers.web.routes import documents, maintenance
from workers.web.routes.documents import ReindexItemRequest
from workers.web.routes.maintenance import ForgetRequest
from workers.web.routing import Call

ROUTES = PageTable()
PICTURE_SECONDS = 3_600


class ItemCheckRequest(ItemRequest):
    """Which item is to be checked, and whether it is read again in any case."""

    force: Flag = False


@ROUTES.add(
    "GET", "/items/{id}/picture", "The picture of an article, fetched by this server.", other_types=PICTURE_TYPES
)
async def show_picture(call: Call, asked: ItemRequest) -> web.Response:
    """Send the picture of an article, fetched by this server: its own server does not learn who looks."""
    _, text = await read_item(call, asked.id)
    url = safe_url(text.image) if text else ""
    if not url:
        raise ApiError(404, "not_found", "This text has no picture.")
    try:
        picture = await fetch_picture(call.services.context.fetcher, url)
    except NoPicture as error:
        raise ApiError(404, "no_picture", str(error)) from None
    headers = {"Cache-Control": f"private, max-age={PICTURE_SECONDS}"}
    return web.Response(body=picture.body, content_type=picture.content_type, headers=headers)


# ── actions ──


@ROUTES.action("/items/{id}/check", "Check an item now, or read it again.")
async def check_item(call: Call, asked: ItemCheckRequest) -> Done:
    """Have it checked now."""
    done = await documents.reindex(call, ReindexItemRequest(id=asked.id, force=asked.force))
    how = "It is read again now, whatever its server says" if asked.force else "It is checked now"
    return Done(done.queue_problem or f"{how}; this page shows what becomes of it.")


@ROUTES.action("/items/{id}/forget", "Forget an item.")
async def forget_item(call: Call, asked: ItemRequest) -> Done:
    """Forget it with everything that belongs to it."""
    done = await maintenance.forget(call, ForgetRequest(name=asked.id))
    comes_back = f" It comes back by {', '.join(done.comes_back_by)}." if done.comes_back_by else ""
    return Done(f"It is forgotten, with everything that belonged to it.{comes_back}", "/articles")
