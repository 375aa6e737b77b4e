"""What the routes of feeds and categories take and return."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from workers.web.models import AnswerModel, Flag, Limit, Name, Offset, PlainAnswer, RequestModel

FeedId = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$", description="`sha1(url)[:16]`", examples=["0123456789abcdef"])]
CategoryName = Annotated[str, Field(min_length=1, max_length=200, examples=["world"])]


class FeedsRequest(RequestModel):
    """Which feeds."""

    category: Name = ""
    limit: Limit = 100
    offset: Offset = 0


class FeedRequest(RequestModel):
    """One feed."""

    id: FeedId


class RemoveFeedRequest(RequestModel):
    """A feed that is to go."""

    id: FeedId
    forget: Flag = Field(default=False, description="With the links and articles that it alone listed.")
    dry_run: Flag = Field(default=False, description="Only say what would go.")


class AddFeedRequest(RequestModel):
    """A feed, or a site whose feed is looked for."""

    category: CategoryName
    url: str = Field(min_length=1, max_length=8_000, examples=["https://example.org/feed.xml"])


class PollFeedRequest(RequestModel):
    """A feed to poll now."""

    id: FeedId
    force: bool = Field(default=False, description="Read it again, also if it has not changed.")


class SetFeedRequest(RequestModel):
    """How often a feed is polled, and how long its host is left alone; null takes back what was set."""

    id: FeedId
    interval_seconds: float | None = None
    gap_seconds: float | None = None


class FeedAnswer(PlainAnswer):
    """How a feed is."""

    id: str
    url: str
    categories: list[str]
    status: str = Field(description="new, ok, waiting, error or gone.")
    title: str
    kind: str
    moved_to: str
    last_poll_ts: float | None
    last_http_status: int | None
    next_poll_ts: float | None
    next_poll_reason: str
    interval_seconds: float
    error_class: str
    error_text: str
    broken_since_ts: float | None = Field(description="The first of the failed polls in a row; null: it works.")
    polls: int
    percent_304: float
    links_found: int
    percent_duplicate: float
    last_new_ts: float | None
    entries: int
    entries_left_out: int
    rejected: int
    rejected_example: str
    events: list[str]
    set_interval_seconds: float | None = Field(description="Set for this feed; null: it decides itself.")
    set_gap_seconds: float | None
    gap_seconds: float | None = Field(description="Between two requests to its host.")
    gap_set_for: str | None = Field(description="host, feed or source; null: it is that of the settings.")
    parallel: int | None


class FeedsAnswer(AnswerModel):
    """Some feeds."""

    total: int
    feeds: list[FeedAnswer]


class OtherFeedAnswer(AnswerModel):
    """Another feed of the same site."""

    url: str
    title: str


class AddFeedAnswer(AnswerModel):
    """The feed that was added."""

    id: str
    category: str
    url: str
    title: str
    found_by: str = Field(description="The page that led to it; empty: it was asked for itself.")
    others: list[OtherFeedAnswer] = Field(description="Other feeds of the site, which were not added.")


class RemoveFeedAnswer(AnswerModel):
    """What went with a feed."""

    url: str
    categories: list[str]
    removed: dict[str, int]
    dry_run: bool
    note: str = Field(description="What brings it back, if something does.")


class PollAnswer(AnswerModel):
    """How a poll ended."""

    url: str
    end: str
    new_links: int
    known_links: int
    rejected_links: int
    reason: str
    wait_seconds: float


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
