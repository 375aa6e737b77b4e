"""Add a URL, and have items read again."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from pydantic import Field, model_validator

from core.registry.io.reindex import Reindexer, ReindexRequest
from core.registry.io.url_adder import AddedUrl, UrlAdder
from core.registry.record import Status
from core.runtime.api_results import RunState
from core.search.io.index_rebuild import IndexRebuild, RebuildTarget
from workers.web.errors import as_conflict
from workers.web.job_models import job_of
from workers.web.models import AnswerModel, Name, RequestModel, shown
from workers.web.routing import Call, RouteTable, StoreCall

shown(AddedUrl, "AddUrlAnswer")
ROUTES = RouteTable("indexing")


class AddUrlRequest(RequestModel):
    """A URL, and where it belongs."""

    url: str = Field(min_length=1, max_length=8_000, examples=["https://example.org/a"])
    category: Name = Field(default="", description="It becomes an article of this category; a new one is made.")
    domain: Name = Field(default="", description="It becomes a page of the source of this domain that covers it.")
    force: bool = Field(default=False, description="Read it again, whatever its validators say.")


class ReindexItemRequest(RequestModel):
    """What to read again: one item by any of its names, or many by what they have in common."""

    id: Name = Field(default="", description="An item id or the uid of an article.")
    source: str = Field(default="", max_length=8_000, description="A URL, or the id of a source.")
    category: Name = ""
    domain: Name = ""
    host: Name = ""
    status: Status | None = None
    stale: bool = Field(default=False, description="What an older version of Freshet read.")
    all: bool = False
    force: bool = Field(default=False, description="Ignore validators and hashes; try links again that failed.")
    dry_run: bool = Field(default=False, description="Only count.")

    @model_validator(mode="after")
    def _one_choice(self) -> ReindexItemRequest:
        chosen = (self.id, self.source, self.category, self.domain, self.host, self.status, self.stale, self.all)
        if sum(map(bool, chosen)) != 1:
            raise ValueError("name one of id, source, category, domain, host, status, stale and all")
        return self


class ReindexItemAnswer(AnswerModel):
    """What is read again."""

    items: int = Field(description="Items that are due now, or would be.")
    links: int = Field(description="Links without an article that are tried again.")
    jobs: int = Field(description="Jobs that were sent; the timer brings what they do not name.")
    queue_problem: str
    run_id: str = Field(description="The run that visits the items; empty if there are none.")
    waiting: int = Field(description="Items that are not visited before someone resumes what is paused.")
    paused: str = Field(description="What they wait for, as a sentence; empty if nothing waits.")
    requests: int | None = Field(description="Of a dry run: how many requests that is at most.")
    statuses: dict[str, int] = Field(description="Of a dry run: the items by status.")
    dry_run: bool


class RebuildRequest(RequestModel):
    """What is rebuilt, and how."""

    what: RebuildTarget = Field(
        default=RebuildTarget.DUE,
        strict=False,
        description="due: the due sets from the records; chunks: the chunks of all texts, beside the live ones.",
    )
    force: bool = Field(default=False, description="Read every item again, whatever its validators say.")
    dry_run: bool = Field(default=False, description="Only count.")


class RebuildAnswer(AnswerModel):
    """The run that does it, or what it would change."""

    job: RunState | None = Field(description="GET /v2/jobs/{id} shows how far it is; null after a dry run.")
    would_change: dict[str, int] | None = Field(description="Of a dry run.")


@ROUTES.add("POST", "/api/AddUrlDocument", fields_in="body")
async def add_url(call: StoreCall, asked: AddUrlRequest) -> AddedUrl:
    """Add a URL; one that is known is checked now.

    Without a category or a domain it is a single page of the source `urls`. What the fetcher or the scope of the
    domain would refuse is refused with the reason.
    """
    adder = UrlAdder(call.settings, call.client, call.keys)
    return await adder.add(asked.url, category=asked.category, domain=asked.domain, force=asked.force)


@ROUTES.add("POST", "/api/RebuildIndex", fields_in="body", is_destructive=True)
async def rebuild_index(call: Call, asked: RebuildRequest) -> RebuildAnswer:
    """Rebuild the due sets or all chunks, as a run.

    Search answers all the time: new chunks are built beside the live ones and swapped page by page.
    """
    index = IndexRebuild(call.settings, call.client, call.keys)
    if asked.dry_run:
        return RebuildAnswer(job=None, would_change=await index.preview(asked.what, force=asked.force))
    with as_conflict():
        run = await index.start(asked.what, force=asked.force, started_by="api")
    return RebuildAnswer(job=job_of(run), would_change=None)


@ROUTES.add("POST", "/api/ReindexItem", fields_in="body")
async def reindex(call: Call, asked: ReindexItemRequest) -> ReindexItemAnswer:
    """Check items now, or read them again with force."""
    reindexer, request = Reindexer(call.settings, call.client, call.keys), _request(asked)
    if asked.dry_run:
        counts = await reindexer.count(await reindexer.select(request, Path("/")))
        return ReindexItemAnswer(
            items=counts.items,
            links=len(counts.links),
            jobs=0,
            queue_problem="",
            run_id="",
            waiting=0,
            paused="",
            requests=counts.requests,
            statuses=dict(counts.statuses),
            dry_run=True,
        )
    done = await reindexer.run(request, Path("/"), started_by="api")
    return ReindexItemAnswer(**asdict(done), requests=None, statuses={}, dry_run=False)


def _request(asked: ReindexItemRequest) -> ReindexRequest:
    """Return what is meant: `source` is the id of one, or, as in the registry, the URL or path of an item."""
    is_address = "/" in asked.source
    return ReindexRequest(
        name=asked.id or (asked.source if is_address else "") or None,
        category=asked.category or None,
        domain=asked.domain or None,
        source=(asked.source if not is_address else "") or None,
        host=asked.host or None,
        status=str(asked.status) if asked.status else None,
        stale=asked.stale,
        all=asked.all,
        force=asked.force,
    )
