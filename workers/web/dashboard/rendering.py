"""Render templates: every value is escaped, a name that is missing is an error."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from aiohttp import web
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from core.settings import VERSION
from core.value_class import value_class
from workers.web.dashboard import formats, forms, session


@value_class
class NavigationLink:
    """A page in the menu."""

    path: str
    label: str
    key: str = ""
    """After `g`, this key opens it."""

    def is_current(self, path: str) -> bool:
        """Return whether a page is this one, or below it."""
        return path == self.path or (self.path != "/" and path.startswith(f"{self.path}/"))


NAVIGATION = (
    NavigationLink("/", "Overview", "o"),
    NavigationLink("/articles", "Articles", "a"),
    NavigationLink("/feeds", "Feeds", "f"),
    NavigationLink("/domains", "Domains", "d"),
    NavigationLink("/runs", "Runs", "r"),
    NavigationLink("/why", "Why?", "w"),
    NavigationLink("/failures", "Failures", "x"),
    NavigationLink("/webhooks", "Webhooks", "h"),
    NavigationLink("/throttle", "Throttle", "t"),
    NavigationLink("/doctor", "Doctor", "c"),
    NavigationLink("/settings", "Settings", "s"),
)


TEMPLATES = Path(__file__).parent / "templates"
STATIC = Path(__file__).parents[1] / "static"
FILTERS = ["number", "duration", "relative", "iso", "day", "percent", "safe_url", "host", "bars", "why_path", "part"]
"""Functions of `formats` that templates use."""


@cache
def environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    for name in FILTERS:
        made.filters[name] = getattr(formats, name)
    made.globals["static"] = static_url
    return made


@cache
def static_url(name: str) -> str:
    """Return the address of a file of the pages; it changes with the file, so that browsers may keep it."""
    return f"/static/{name}?v={hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:10]}"


def render(
    request: web.Request, template: str, values: Mapping[str, Any], *, title: str, status: int = 200
) -> web.Response:
    notice, browser = session.Notice.read(request), forms.browser_name(request)
    frame = {
        "title": title,
        "path": request.path,
        "here": request.path_qs,
        "navigation": NAVIGATION,
        "csrf": forms.form_token(request, browser),
        "notice": notice,
        "version": VERSION,
        "is_logged_in": session.has_login(request),
        "now": time.time(),
    }
    text = environment().get_template(template).render({**frame, **values})
    # Bytes that are not UTF-8 reach us from Redis as lone surrogates.
    response = web.Response(
        body=text.encode(errors="replace"), status=status, content_type="text/html", charset="utf-8"
    )
    if notice:
        session.clear_notice(response)
    session.write_browser(request, response, browser)
    return response
