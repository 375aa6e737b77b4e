"""Routes of the API itself: the OpenAPI document, the docs page, and static files."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from aiohttp import web
from pydantic import Field

from core.errors import NotFound
from workers.web import openapi
from workers.web.models import NoParameters, RequestModel
from workers.web.plain_pages import docs_page
from workers.web.routing import HTML, JSON, Call, Routes, RouteTable
from workers.web.routing import ROUTES as TABLE

STATIC = Path(__file__).parents[1] / "static"
CSS = "text/css"
JAVASCRIPT = "text/javascript"
YEAR_SECONDS = 31_536_000
ROUTES = RouteTable("about")


class FileRequest(RequestModel):
    """A file."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,60}$", examples=["api.css"])
    v: str = Field(default="", max_length=20, description="Part of its hash: a changed file has another address.")


@ROUTES.add("GET", "/openapi.json", other_types=(JSON,))
async def show_openapi(call: Call, _: NoParameters) -> web.Response:
    """This API as an OpenAPI 3.1 document."""
    return web.json_response(_document(call.http.app[TABLE]))


@ROUTES.add("GET", "/docs", other_types=(HTML,))
async def show_docs(call: Call, _: NoParameters) -> web.Response:
    """This API as a page to read."""
    return web.Response(text=docs_page(_document(call.http.app[TABLE])), content_type=HTML)


@ROUTES.add("GET", "/static/{name}", other_types=(CSS, JAVASCRIPT), is_public=True)
async def show_file(call: Call, asked: FileRequest) -> web.FileResponse:
    """A file of the pages, such as their style sheet."""
    if asked.name not in _file_names():  # no other name is looked up
        raise NotFound(f"There is no file {asked.name}.")
    lifetime = f"max-age={YEAR_SECONDS}, immutable" if asked.v else "max-age=3600"
    response = web.FileResponse(STATIC / asked.name, headers={"Cache-Control": lifetime})
    response.enable_compression()
    return response


@cache
def _file_names() -> frozenset[str]:
    return frozenset(path.name for path in STATIC.iterdir())


@cache
def _document(table: Routes) -> openapi.Schema:
    return openapi.document(table)
