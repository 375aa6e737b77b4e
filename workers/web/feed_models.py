"""Request and response models of the routes of feeds and categories."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from workers.web.models import AnswerModel, Flag, Limit, Name, Offset, PlainAnswer, RequestModel

FeedId = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$", description="`sha1(url)[:16]`", examples=["0123456789abcdef"])]
CategoryName = Annotated[str, Field(min_length=1, max_length=200, examples=["world"])]


class FeedsRequest(RequestModel):
    """Which feeds."""

    category: Name = ""
    health: Literal["", "new", "working", "silent", "broken", "gone"] = ""
    text: Name = Field(default="", description="Words that the title or the address has.")
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
    health: str = Field(description="new, working, silent (nothing new for a week), broken or gone.")
    why_silent: str = Field(description="Why nothing new comes from it; empty: something does.")
    title: str
    kind: str
    moved_to: str
    last_poll_ts: float | None
    last_http_status: int | None
    next_poll_ts: float | None
    next_poll_reason: str
    why_then: str
    interval_seconds: float
    error_class: str
    error_text: str
    broken_since_ts: float | None = Field(description="The first of the failed polls in a row; null: it works.")
    polls: int
    percent_304: float
    links_found: int
    percent_duplicate: float
    last_new_ts: float | None
    new_per_day: dict[str, int] = Field(description="New entries on each of the last 14 days that had any.")
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
    by_health: dict[str, int] = Field(description="How many there are of each health, whichever was asked for.")
    by_category: dict[str, int] = Field(description="All categories that have feeds, with their number.")
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
