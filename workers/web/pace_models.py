"""Request and response models of the routes of paces and of category changes."""

from __future__ import annotations

from pydantic import Field

from workers.web.feed_models import CategoryName
from workers.web.models import AnswerModel, Flag, RequestModel


class RenameCategoryRequest(RequestModel):
    """A category and its new name."""

    name: CategoryName
    to: CategoryName = Field(description="a-z, 0-9, _ and -. A category that exists takes the other in.")
    dry_run: bool = Field(default=False, description="Only say how much that is.")


class DropCategoryRequest(RequestModel):
    """A category that is to go."""

    name: CategoryName
    dry_run: Flag = Field(default=False, description="Only say how much that is.")


class CategoryChangeAnswer(AnswerModel):
    """What a change of a category moved, or would move."""

    feeds: int
    links: int
    articles: int = Field(description="Articles that have another category now.")
    removed: dict[str, int] = Field(description="What the dropped category alone had.")
    dry_run: bool
    notes: list[str] = Field(description="Files that bring the category back, and what to do about it.")


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
