"""Links that gave no article: list, counts, another try."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from core.errors import NotFound
from core.feeds.io.failure_list import FailureFilter, FailureList
from core.urls.secrets import redact
from workers.web.models import AnswerModel, Limit, Name, Offset, RequestModel
from workers.web.routing import Call, RouteTable

ROUTES = RouteTable("articles")


class FailuresRequest(RequestModel):
    """Which failures."""

    code: str = Field(default="", max_length=40, description="Only these.", examples=["FAIL_TIMEOUT"])
    host: Name = Field(default="", description="Only links to this host.")
    limit: Limit = 50
    offset: Offset = 0


class FailedEntryAnswer(AnswerModel):
    """An entry whose page gave no article."""

    url: str
    code: str = Field(examples=["FAIL_HTTP/status"])
    text: str
    http_status: int | None
    tries: int
    failed_ts: float | None
    retry_ts: float | None = Field(description="When it is tried again; null: not by itself.")


class FailureAnswer(FailedEntryAnswer):
    """A link that gave no article."""

    uid: str


class FailuresAnswer(AnswerModel):
    """Failures, newest first, with counts over the newest thousand."""

    total: int = Field(description="All that are remembered.")
    looked_at: int = Field(description="The newest of them; counts and filters are about these.")
    codes: dict[str, int]
    hosts: dict[str, int] = Field(description="Those with most failures.")
    failures: list[FailureAnswer]
    next_offset: int | None


class RetryFailuresRequest(RequestModel):
    """What is tried again: one link, all of a code, or all of a host."""

    uid: str = Field(default="", pattern=r"^([0-9a-f]{16})?$")
    code: str = Field(default="", max_length=40)
    host: Name = ""

    @model_validator(mode="after")
    def _one_choice(self) -> Self:
        if sum(map(bool, (self.uid, self.code, self.host))) != 1:
            raise ValueError("give one of uid, code and host")
        return self


class RetriedAnswer(AnswerModel):
    """How many links are new again."""

    links: int = Field(description="The next run of the canonical fetcher tries them.")


@ROUTES.add("GET", "/api/failures")
async def list_failures(call: Call, asked: FailuresRequest) -> FailuresAnswer:
    """Links that gave no article, newest first, with counts by code and host."""
    failures, wanted = FailureList(call.client, call.keys), FailureFilter(asked.code, asked.host)
    page = await failures.page(wanted, asked.limit, asked.offset)
    end = asked.offset + asked.limit
    answers = [FailureAnswer.model_validate({"uid": one.uid, **one.to_json()}) for one in page.failures]
    next_offset = end if page.matching > end else None
    counts = {"codes": dict(page.codes), "hosts": dict(page.hosts)}
    return FailuresAnswer.copied(page, failures=answers, next_offset=next_offset, **counts)


@ROUTES.add("POST", "/api/failures/retry", fields_in="body")
async def retry_failures(call: Call, asked: RetryFailuresRequest) -> RetriedAnswer:
    """Try a failed link again, or all of a code or of a host."""
    failures = FailureList(call.client, call.keys)
    if asked.uid:
        count = await failures.retry_link(asked.uid)
    else:
        count = await failures.retry(FailureFilter(asked.code, asked.host))
    if not count:
        what = redact(asked.uid or asked.code or asked.host)
        raise NotFound(f"No link has failed that way: {what}. GET /api/failures lists those that have.")
    return RetriedAnswer(links=count)
