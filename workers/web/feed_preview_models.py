"""Request and response models of the routes that preview a feed and list its entries."""

from __future__ import annotations

from pydantic import Field

from workers.web.feed_models import FeedId, OtherFeedAnswer
from workers.web.models import AnswerModel, Limit, Name, RequestModel


class PreviewFeedRequest(RequestModel):
    """A feed, or a site whose feed is looked for."""

    url: str = Field(min_length=1, max_length=8_000, examples=["https://example.org/"])
    category: Name = Field(default="", description="Where it would be added; links of this category are known.")


class PreviewEntryAnswer(AnswerModel):
    """An entry that would come."""

    url: str = Field(description="As it would be stored: unwrapped, without trackers.")
    title: str
    published_ts: float | None
    is_new: bool


class RefusedEntryAnswer(AnswerModel):
    """An entry that would be refused."""

    url: str
    reason: str


class PreviewFeedAnswer(AnswerModel):
    """What a subscription would bring."""

    id: str
    url: str
    title: str
    kind: str = Field(description="rss, atom, json, cdf, sitemap, news_sitemap or sitemap_index.")
    found_by: str = Field(description="The page that led to it; empty: it was asked for itself.")
    category: str = Field(description="As it would be written; empty if none was named.")
    subscribed: list[str] = Field(description="The categories that have it already.")
    others: list[OtherFeedAnswer]
    links: int
    new_links: int
    known_links: int
    rejected_links: int
    left_out: int = Field(description="Entries beyond the limit, which would not be read.")
    entries: list[PreviewEntryAnswer] = Field(description="The first twenty.")
    rejected: list[RefusedEntryAnswer] = Field(description="The first ten.")


class FeedEntriesRequest(RequestModel):
    """A feed whose entries are wanted."""

    id: FeedId
    limit: Limit = 30


class FeedEntryAnswer(AnswerModel):
    """An entry of the feed's last body."""

    url: str
    title: str
    uid: str = Field(description="Of its article; empty: there is none.")
    ts: float | None = Field(description="When the article was stored, or the link was last seen.")


class FailedEntryAnswer(AnswerModel):
    """An entry whose page gave no article."""

    url: str
    code: str
    text: str
    http_status: int | None
    tries: int
    failed_ts: float | None
    retry_ts: float | None = Field(description="When it is tried again; null: not by itself.")


class FeedEntriesAnswer(AnswerModel):
    """The entries of a feed."""

    entries: list[FeedEntryAnswer]
    failed: list[FailedEntryAnswer]
