"""Request and response models of the routes of categories and OPML."""

from __future__ import annotations

from pydantic import Field

from workers.web.feed_models import CategoryName
from workers.web.models import AnswerModel, Name, RequestModel


class CategoryAnswer(AnswerModel):
    """A category and how much is in it."""

    name: str
    feeds: int
    links: int
    articles: int


class CategoriesAnswer(AnswerModel):
    """All categories."""

    categories: list[CategoryAnswer]


class CategoryRequest(RequestModel):
    """One category."""

    name: CategoryName


class PollCategoryRequest(RequestModel):
    """A category whose feeds are polled now."""

    name: CategoryName
    force: bool = Field(default=False, description="Read them again, also if they have not changed.")


class CategoryPollAnswer(AnswerModel):
    """What was made due."""

    due: int
    waiting: dict[str, str] = Field(description="Feeds whose server asked for a pause, with the reason.")


class OpmlRequest(RequestModel):
    """An OPML document."""

    name: Name = Field(
        default="", description="A name for the document: a later import of it removes what it no longer has."
    )


class OpmlAnswer(AnswerModel):
    """What an import did."""

    added: int
    removed: int
    refused: list[str] = Field(description="Entries that are no http(s) URLs; the others are imported.")
