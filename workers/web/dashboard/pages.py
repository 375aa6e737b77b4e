"""Pages and actions as routes: a page renders a template, an action changes something and leads back to a page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from aiohttp import web
from pydantic import BaseModel

from core.value_class import value_class
from workers.web.dashboard import forms, rendering
from workers.web.dashboard.session import Notice
from workers.web.errors import ApiError, explained_request
from workers.web.routing import HTML, Call, Route

R = TypeVar("R", bound=BaseModel)
TAG = "pages"
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


View = Callable[[Call, R], Awaitable[Mapping[str, Any] | web.StreamResponse]]
Act = Callable[[Call, R], Awaitable[Done]]
Again = Callable[[Call, R, ApiError], web.StreamResponse]
"""Returns the page of a form as it was filled in, with why it was refused."""


def page(path: str, title: str, template: str, view: View[R], request: type[R], *, is_public: bool = False) -> Route[R]:
    """Return the route of a page: the values that `view` returns, in a template.

    A value `title` replaces the page's own; a response is sent as it is.
    """

    async def handle(call: Call, asked: R) -> web.StreamResponse:
        values = await view(call, asked)
        if isinstance(values, web.StreamResponse):
            return values
        return rendering.render(call.http, template, values, title=str(values.get("title", title)))

    return Route(
        method="GET",
        path=path,
        summary=title,
        tag=TAG,
        request=request,
        handler=handle,
        answer=None,
        other_types=(HTML,),
        takes_filters=True,
        is_public=is_public,
    )


def action(
    path: str,
    summary: str,
    act: Act[R],
    request: type[R],
    *,
    again: Again[R] | None = None,
    is_public: bool = False,
    seconds: float | None = ACTION_SECONDS,
) -> Route[R]:
    """Return the route of a form: do it, then show the page it leads to with what was done, or why not.

    `again` shows a form that takes long to fill in; without it a refusal leads back to the page of the form.
    """

    async def handle(call: Call, asked: R) -> web.StreamResponse:
        back = await forms.way_back(call.http)
        try:
            done = await act(call, asked)
        except Exception as error:
            problem = explained_request(call.http, error)
            if problem.status >= EXPECTED_BELOW:
                raise
            return again(call, asked, problem) if again else see_other(call.http, back, failure_notice(problem))
        return see_other(call.http, done.path or back, Notice(done.text))

    return Route(
        method="POST",
        path=path,
        summary=summary,
        tag=TAG,
        request=request,
        handler=handle,
        answer=None,
        other_types=(HTML,),
        fields_in="form",
        is_public=is_public,
        seconds=seconds,
    )


def see_other(request: web.Request, path: str, notice: Notice | None = None) -> web.Response:
    """Return the answer that leads to another page."""
    response = web.Response(status=303, headers={"Location": path})
    if notice:
        notice.write(request, response)
    return response


def failure_notice(problem: ApiError) -> Notice:
    """Return why an action was refused, with what to do."""
    return Notice(f"{problem.detail.message} {problem.detail.hint}".strip(), "failed")


async def error_page(request: web.Request, problem: ApiError) -> web.Response:
    """Return an error as a page; a form that was filled in wrongly leads back to its page, which says so."""
    if request.method == "POST" and problem.status == INVALID:
        return see_other(request, await forms.way_back(request), Notice(problem.detail.message, "failed"))
    values = {"detail": problem.detail, "status": problem.status}
    response = rendering.render(request, "error.html", values, title="Something is not right", status=problem.status)
    response.headers.update(problem.headers)
    return response
