"""Forms of the dashboard: their token, their fields, and the way back after an action.

A form carries a token that is bound to the browser's cookie, so that a foreign page cannot fill it in.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from aiohttp import web

from workers.web.dashboard.session import BROWSER_COOKIE, SIGNER
from workers.web.errors import ApiError

TOKEN_FIELD = "csrf"  # noqa: S105 - the name of a form field
BACK_FIELD = "back"
FORM_TYPES = ("application/x-www-form-urlencoded", "multipart/form-data")


def browser_name(request: web.Request) -> str:
    """Return the name of this browser, a new one if it has none yet."""
    known = request.cookies.get(BROWSER_COOKIE, "")
    return known if len(known) >= 20 else secrets.token_urlsafe(18)


def form_token(request: web.Request, browser: str) -> str:
    return request.app[SIGNER].signature("form", browser)


async def read_form(request: web.Request) -> Mapping[str, str]:
    """Return the fields that were filled in; raise ApiError if the form is not one of ours."""
    if request.content_type not in FORM_TYPES:
        raise ApiError(415, "unsupported_media_type", f"{request.path} takes a form.", "Use the page's own form.")
    form = await request.post()
    given, browser = str(form.get(TOKEN_FIELD, "")), request.cookies.get(BROWSER_COOKIE, "")
    if not browser or not request.app[SIGNER].is_signature(given, "form", browser):
        hint = "Go back, reload the page and try again."
        raise ApiError(403, "stale_form", "This form is too old, or was not made by this page.", hint)
    # Boxes that were ticked come one by one under the same name.
    fields = {name: ",".join(map(_text, form.getall(name))) for name in form if name not in (TOKEN_FIELD, BACK_FIELD)}
    return {name: value for name, value in fields.items() if value.strip()}


def _text(value: str | bytes | bytearray | web.FileField) -> str:
    if isinstance(value, web.FileField):
        return value.file.read().decode("utf-8", "replace")
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


async def way_back(request: web.Request) -> str:
    """Return the page that the form says it is on; only a path of ours."""
    form = await request.post()
    return own_path(str(form.get(BACK_FIELD, "")))


def own_path(path: str) -> str:
    """Return a path of this server as it is, anything else as the first page."""
    is_own = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() and "\\" not in path
    return path if is_own else "/"
