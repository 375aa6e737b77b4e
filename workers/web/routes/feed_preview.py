"""Look into a feed: what a subscription would bring, and what became of its entries."""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field

from core.feeds.io.failed_entries import FailedEntries
from core.feeds.io.feed_adder import NoFeedThere
from core.feeds.io.feed_entries import entries_of
from core.feeds.io.feed_preview import PreviewEntry, preview_feed
from core.models import RejectedUrl
from core.urls.secrets import redact
from workers.web.models import AnswerModel, Limit, Name, RequestModel
from workers.web.routes.failures import FailedEntryAnswer
from workers.web.routes.feeds import POLL_SECONDS, OneFeedRequest, OtherFeedAnswer, found_feed, no_feed, require_feed
from workers.web.routing import RouteTable, StoreCall


class PreviewFeedRequest(RequestModel):
    """A feed, or a site whose feed is looked for."""

    url: str = Field(min_length=1, max_length=8_000, examples=["https://example.org/"])
    category: Name = Field(default="", description="Where it would be added; links of this category are known.")


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
    entries: list[PreviewEntry] = Field(description="The first twenty.")
    rejected: list[RejectedUrl] = Field(description="The first ten.")


class FeedEntriesRequest(OneFeedRequest):
    """A feed whose entries are wanted."""

    limit: Limit = 30


class FeedEntryAnswer(AnswerModel):
    """An entry of the feed's last body."""

    url: str
    title: str
    uid: str = Field(description="Of its article; empty: there is none.")
    ts: float | None = Field(description="When the article was stored, or the link was last seen.")


class FeedEntriesAnswer(AnswerModel):
    """The entries of a feed."""

    entries: list[FeedEntryAnswer]
    failed: list[FailedEntryAnswer]


ROUTES = RouteTable("feeds")


@ROUTES.add("POST", "/api/feed_preview", fields_in="body", seconds=POLL_SECONDS)
async def preview(call: StoreCall, asked: PreviewFeedRequest) -> PreviewFeedAnswer:
    """What a subscription would bring: its feed, the first entries, what is new, what would be refused.

    Nothing is stored but when the host was asked, and its robots.txt.
    """
    try:
        found = await preview_feed(call.context, asked.url, asked.category)
    except NoFeedThere as none:
        raise no_feed(none) from none
    return PreviewFeedAnswer.copied(
        found,
        **found_feed(found),
        entries=[replace(one, url=redact(one.url)) for one in found.entries],
        rejected=[replace(one, url=redact(one.url)) for one in found.rejected],
    )


@ROUTES.add("GET", "/api/feeds/{id}/entries")
async def list_entries(call: StoreCall, asked: FeedEntriesRequest) -> FeedEntriesAnswer:
    """The entries of a feed's last body with their articles, and those that gave none, with the reason."""
    url, categories = await require_feed(call, asked.id)
    entries = await entries_of(call.client, call.keys, url, categories[0], asked.limit)
    failed = await FailedEntries(call.client, call.keys).of_feed(url, asked.limit)
    return FeedEntriesAnswer(
        entries=[FeedEntryAnswer.copied(one, url=redact(one.url), ts=one.ts or None) for one in entries],
        failed=[FailedEntryAnswer.model_validate(one.to_json()) for one in failed],
    )
