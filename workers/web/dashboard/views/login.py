"""Log in with the API token, and out."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from aiohttp import web
from pydantic import Field

from workers.web.dashboard import session
from workers.web.dashboard.forms import own_path
from workers.web.dashboard.page_table import PageTable, see_other
from workers.web.dashboard.session import Notice
from workers.web.models import NoParameters, RequestModel
from workers.web.routing import Call
from workers.web.security import GUARD

ROUTES = PageTable()


class LoginPageRequest(RequestModel):
    """Where to go after the login."""

    next: str = Field(default="/", max_length=2_000)


class LoginRequest(LoginPageRequest):
    """What the form sends."""

    token: str = Field(default="", max_length=1_000)


@ROUTES.page("/login", "Log in", "login.html", is_public=True)
async def show_login(call: Call, asked: LoginPageRequest) -> dict[str, Any]:
    return {"next": own_path(asked.next)}


@ROUTES.form("/login", is_public=True)
async def log_in(call: Call, asked: LoginRequest) -> web.Response:
    if not call.http.app[GUARD].rules.is_token(asked.token.strip()):
        again = f"/login?{urlencode({'next': own_path(asked.next)})}"
        return see_other(call.http, again, Notice("This is not the API token.", "failed"))
    response = see_other(call.http, own_path(asked.next))
    session.write_login(call.http, response)
    return response


@ROUTES.form("/logout", is_public=True)
async def log_out(call: Call, _: NoParameters) -> web.Response:
    response = see_other(call.http, "/login", Notice("You are logged out."))
    session.clear_login(response)
    return response
