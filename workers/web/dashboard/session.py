"""Cookies of the dashboard: who has logged in, which browser this is, and what the last action had to say."""

from __future__ import annotations

import time
from typing import Literal, Self

from aiohttp import web

from core.value_class import value_class
from workers.web.dashboard.signer import Signer

SIGNER: web.AppKey[Signer] = web.AppKey("signer", Signer)
LOGIN_COOKIE = "freshet_login"
BROWSER_COOKIE = "freshet_browser"
NOTICE_COOKIE = "freshet_notice"
LOGIN_SECONDS = 30 * 86_400
NOTICE_SECONDS = 60
MOST_NOTICE_CHARS = 1_000
"""Browsers drop cookies of more than 4 kB."""


@value_class
class Notice:
    """What the page after an action shows."""

    text: str
    kind: Literal["done", "failed"] = "done"

    @classmethod
    def read(cls, request: web.Request) -> Self | None:
        values = request.app[SIGNER].unpack("notice", request.cookies.get(NOTICE_COOKIE, ""))
        return cls(values["text"], values["kind"]) if values else None

    def write(self, request: web.Request, response: web.StreamResponse) -> None:
        packed = request.app[SIGNER].pack("notice", {"text": self.text[:MOST_NOTICE_CHARS], "kind": self.kind})
        _set_cookie(request, response, NOTICE_COOKIE, packed, NOTICE_SECONDS)


def clear_notice(response: web.StreamResponse) -> None:
    """Show a notice only once."""
    response.del_cookie(NOTICE_COOKIE, path="/")


def has_login(request: web.Request) -> bool:
    """Return whether this browser has logged in, and not too long ago."""
    values = request.app[SIGNER].unpack("login", request.cookies.get(LOGIN_COOKIE, ""))
    return values is not None and float(values["until_ts"]) > time.time()


def write_login(request: web.Request, response: web.StreamResponse) -> None:
    packed = request.app[SIGNER].pack("login", {"until_ts": time.time() + LOGIN_SECONDS})
    _set_cookie(request, response, LOGIN_COOKIE, packed, LOGIN_SECONDS)


def clear_login(response: web.StreamResponse) -> None:
    response.del_cookie(LOGIN_COOKIE, path="/")


def write_browser(request: web.Request, response: web.StreamResponse, browser: str) -> None:
    """Give a browser the random name to which the token of its forms is bound."""
    _set_cookie(request, response, BROWSER_COOKIE, browser, LOGIN_SECONDS)


def _set_cookie(request: web.Request, response: web.StreamResponse, name: str, value: str, seconds: int) -> None:
    is_secure = request.secure or request.headers.get("X-Forwarded-Proto") == "https"
    response.set_cookie(name, value, max_age=seconds, path="/", httponly=True, samesite="Lax", secure=is_secure)
