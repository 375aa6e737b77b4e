"""Request and response models of the routes of webhooks."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from core.outputs.webhook import ID_PATTERN
from core.outputs.webhook_filter import MOST_NAMES, MOST_QUERY_CHARS
from workers.web.models import AnswerModel, Limit, Name, Offset, RequestModel

WebhookId = Annotated[str, Field(pattern=ID_PATTERN, examples=["wh_0a1b2c3d4e5f"])]
Names = Annotated[list[Name], Field(max_length=MOST_NAMES)]
EventId = Annotated[str, Field(pattern=r"^(?:0|[0-9]{1,19}-[0-9]{1,19})$", examples=["1763337600000-0"])]


class WebhookRequest(RequestModel):
    """One webhook."""

    id: WebhookId


class WebhooksRequest(RequestModel):
    """Which webhooks."""

    limit: Limit = 1_000
    offset: Offset = 0


class AddWebhookRequest(RequestModel):
    """Where to send events, and which; an empty part lets everything pass."""

    url: str = Field(min_length=1, max_length=8_000, examples=["https://example.org/hook"])
    types: Names = Field(default=[], description="Types of events, or groups such as `item.*`.")
    categories: Names = Field(default=[], description="Categories of articles.")
    domains: Names = Field(default=[], description="Domains (knowledge bases) of items.")
    search: str = Field(default="", max_length=MOST_QUERY_CHARS, description="Words that must all be in the text.")


class DeadLettersRequest(RequestModel):
    """Dead letters of a webhook."""

    id: WebhookId
    limit: Limit = 100


class ReplayRequest(RequestModel):
    """What to deliver once more: the dead letters, or everything from an event on."""

    id: WebhookId
    from_id: EventId | None = Field(
        default=None, description="An event in the stream; 0: all events; null: the dead letters."
    )


class WebhookAnswer(AnswerModel):
    """A webhook and how its deliveries are doing."""

    id: str
    url: str
    types: list[str]
    categories: list[str]
    domains: list[str]
    search: str
    secret: str = Field(description="Hidden, except in the answers that add a webhook or rotate its secret.")
    old_secret_until_ts: float | None = Field(description="Until when the secret before the rotation signs, too.")
    status: str = Field(description="active, paused (events are collected) or disabled (after a 410).")
    status_reason: str
    created_ts: float
    waiting: int = Field(description="Events that are still to be delivered.")
    dead: int = Field(description="Dead letters: events that were given up and can be replayed.")
    is_replaying: bool
    read_id: str = Field(description="Events up to this one have been looked at.")
    attempts: int = Field(description="Failed attempts at the event that is tried now.")
    next_attempt_ts: float | None
    last_attempt_ts: float | None
    last_http_status: int | None
    last_error: str
    delivered: int
    delivered_ts: float | None
    delivered_id: str
    given_up: int = Field(description="Events that were given up, ever.")
    gaps: int = Field(description="How often events were lost before they could be queued.")
    lost_events: int
    gap_ts: float | None
    gap_after: str


class WebhooksAnswer(AnswerModel):
    """All webhooks."""

    total: int
    webhooks: list[WebhookAnswer] = Field(description="The last changed first.")


class WebhookTestAnswer(AnswerModel):
    """How a test message was taken."""

    is_taken: bool
    http_status: int | None
    reason: str


class WebhookRemovedAnswer(AnswerModel):
    """A webhook that is gone."""

    id: str
    url: str


class DeadLetterAnswer(AnswerModel):
    """An event that was given up."""

    id: str
    event_id: str
    type: str
    body: str
    reason: str
    http_status: int
    attempts: int
    given_up_ts: float


class DeadLettersAnswer(AnswerModel):
    """Dead letters, newest first."""

    dead_letters: list[DeadLetterAnswer]


class ReplayAnswer(AnswerModel):
    """What will be delivered once more."""

    from_id: str | None = Field(description="The first event that is still in the stream; null: dead letters.")
    dead_letters: int


class SkipAnswer(AnswerModel):
    """What was given up."""

    event_id: str = Field(description="Empty: nothing waits.")
