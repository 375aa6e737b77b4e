"""How quickly hosts are asked: list what was set, and set the pace of a host."""

from __future__ import annotations

from dataclasses import asdict

from pydantic import Field

from core.errors import FeedFileError
from core.urls.pace import checked_host
from workers.web.models import AnswerModel, NoParameters, RequestModel
from workers.web.routes.feeds import feed_options
from workers.web.routing import Call, RouteTable


class SetHostRequest(RequestModel):
    """How quickly a host is asked; null takes back what was set."""

    host: str = Field(min_length=1, max_length=260, examples=["docs.example.org"])
    gap_seconds: float | None = None
    parallel: int | None = None


class HostPaceAnswer(AnswerModel):
    """What holds for a host."""

    host: str
    gap_seconds: float = Field(description="Between two requests; robots.txt may ask for more.")
    parallel: int | None = Field(description="Requests at once; null: no limit.")
    set_for: str | None = Field(description="host, feed or source; null: it is the gap of the settings.")
    gate: str = Field(description="Who shares this limit: `fetch:gate:<gate>`.")


class PaceOptionAnswer(AnswerModel):
    """An option that someone set."""

    scope: str = Field(description="host, feed or source.")
    name: str
    origin: str = Field(description="command, the path of a feed file, or the domain of the source.")
    interval_seconds: float | None
    gap_seconds: float | None
    parallel: int | None
    hosts: list[str] = Field(description="The hosts for which the gap of a feed or source holds.")


class PaceOptionsAnswer(AnswerModel):
    """All options."""

    options: list[PaceOptionAnswer]


ROUTES = RouteTable("feeds")


@ROUTES.add("GET", "/api/pace")
async def list_options(call: Call, _: NoParameters) -> PaceOptionsAnswer:
    """Intervals, gaps and limits that were set for hosts, feeds and sources."""
    stored = await feed_options(call).all()
    return PaceOptionsAnswer(options=[PaceOptionAnswer.copied(one, **asdict(one.option)) for one in stored])


@ROUTES.add("PUT", "/api/pace/{host}", fields_in="body")
async def set_host(call: Call, asked: SetHostRequest) -> HostPaceAnswer:
    """Set the gap between requests to a host, and how many it gets at once."""
    try:
        host = checked_host(asked.host)
    except ValueError as error:
        raise FeedFileError(f"{error}.") from None
    options, changes = feed_options(call), {name: getattr(asked, name) for name in asked.model_fields_set - {"host"}}
    await options.set_for_host(host, changes)
    pace = await options.pace_of(host)
    assert pace is not None  # checked_host has seen to that
    return HostPaceAnswer.copied(pace, host=host)
