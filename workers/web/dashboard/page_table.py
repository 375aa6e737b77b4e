"""Pages and actions as routes: a page renders a template, an action changes something and leads back to a page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlencode

from aiohttp import web
from pydantic import BaseModel

from core.value_class import value_class
from workers.web.dashboard import forms, rendering
from workers.web.dashboard.session import Notice
from workers.web.errors import ApiError, explained_request
from workers.web.routing import HTML, Call, H, RouteTable, request_of

View = Callable[[Call, Any], Awaitable[Mapping[str, Any] | web.StreamResponse]]
V = TypeVar("V", bound=View)
ACTION_SECONDS = 300.0
"""A poll waits for its turn at the host."""
INVALID = 422
EXPECTED_BELOW = 500
"""Errors with a lower status are the answer to what the person did; the page says so."""


@value_class
class Done:
    """What an action did, in a sentence, and which page comes next; empty: the one the form was on."""

    text: str
    path: str = ""


A = TypeVar("A", bound=Callable[[Call, Any], Awaitable[Done]])
Again = Callable[[Call, Any, ApiError], web.StreamResponse]
"""Returns the page of a form as it was filled in, with why it was refused."""


class PageTable(RouteTable):
    def __init__(self) -> None:
        super().__init__("pages")

    def page(self, path: str, title: str, template: str, **options: Any) -> Callable[[V], V]:
        """Make a function the view of a page: the values that it returns are shown in a template.

        A value `title` replaces the page's own; a response is sent as it is.
        """

        def declare(view: V) -> V:
            async def handle(call: Call, asked: BaseModel) -> web.StreamResponse:
                values = await view(call, asked)
                if isinstance(values, web.StreamResponse):
                    return values
                return rendering.render(call.http, template, values, title=str(values.get("title", title)))

            fields = {"request": request_of(view), "other_types": (HTML,), "takes_filters": True, **options}
            self.add("GET", path, **fields)(handle)
            return view

        return declare

    def form(self, path: str, **options: Any) -> Callable[[H], H]:
        """Make a function the handler of a form that answers with a page of its own."""
        return self.add("POST", path, other_types=(HTML,), fields_in="form", **options)

    def action(self, path: str, again: Again | None = None, **options: Any) -> Callable[[A], A]:
        """Make a function the action of a form: the page it leads to then says what was done, or why not.

        `again` shows a form that takes long to fill in; without it a refusal leads back to the page of the form.
        """

        def declare(act: A) -> A:
            async def handle(call: Call, asked: BaseModel) -> web.StreamResponse:
                back = await forms.way_back(call.http)
                try:
                    done = await act(call, asked)
                except Exception as error:  # noqa: BLE001 - `expected_problem` raises what is not expected
                    problem = expected_problem(call.http, error)
                    return again(call, asked, problem) if again else see_other(call.http, back, failure_notice(problem))
                return see_other(call.http, done.path or back, Notice(done.text))

            self.form(path, **{"request": request_of(act), "seconds": ACTION_SECONDS, **options})(handle)
            return act

        return declare


def expected_problem(request: web.Request, error: Exception) -> ApiError:
    """Return the answer to what the person did; raise the error again if it is ours."""
    problem = explained_request(request, error)
    if problem.status >= EXPECTED_BELOW:
        raise error
    return problem


def list_path(path: str, asked: BaseModel, **changes: object) -> str:
    """Return the address of a list as it was asked for, but for these changes; defaults are left out."""
    values = {**asked.model_dump(mode="json"), **changes}
    defaults = {name: field.default for name, field in type(asked).model_fields.items()}
    query = urlencode(
        {name: "true" if value is True else value for name, value in values.items() if value != defaults[name]},
        errors="replace",
    )
    return f"{path}?{query}" if query else path


def offset_paths(path: str, asked: Any, size: int, *, has_more: bool) -> dict[str, str]:
    """Return the addresses of the pages before and behind one of `size` rows; empty: there is none."""
    newer = list_path(path, asked, offset=max(asked.offset - size, 0)) if asked.offset else ""
    return {"newer": newer, "older": list_path(path, asked, offset=asked.offset + size) if has_more else ""}


def see_other(request: web.Request, path: str, notice: Notice | None = None) -> web.Response:
    """Return the answer that leads to another page."""
    response = web.Response(status=303, headers={"Location": path})
    if notice:
        notice.write(request, response)
    return response


def failure_notice(problem: ApiError) -> Notice:
    return Notice(problem.sentence, "failed")


async def error_page(request: web.Request, problem: ApiError) -> web.Response:
    """Return an error as a page; a form that was filled in wrongly leads back to its page, which says so."""
    if request.method == "POST" and problem.status == INVALID:
        return see_other(request, await forms.way_back(request), Notice(problem.detail.message, "failed"))
    values = {"detail": problem.detail, "status": problem.status}
    response = rendering.render(request, "error.html", values, title="Something is not right", status=problem.status)
    response.headers.update(problem.headers)
    return response
