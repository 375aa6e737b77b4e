"""The table of tools: what agents can do, and what each tool does to the store."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from core.errors import NotFound
from core.runtime.api_results import RunState
from core.search.io.stored_texts import StoredTextReader
from core.urls.secrets import redact
from workers.mcp import texts
from workers.mcp.declaration import ToolDeclaration, tool
from workers.mcp.models import (
    FeedSummary,
    ListArticlesRequest,
    ReadTextRequest,
    RunControlRequest,
    RunsAnswer,
    RunStatusRequest,
    SourcesAnswer,
    SourcesRequest,
    TextPart,
)
from workers.web.errors import ApiError
from workers.web.models import NoParameters
from workers.web.routes import jobs
from workers.web.routes.articles import list_articles
from workers.web.routes.categories import list_categories
from workers.web.routes.documents import add_url
from workers.web.routes.domains import list_domains
from workers.web.routes.feeds import FeedsRequest, list_feeds
from workers.web.routes.items import explain
from workers.web.routes.jobs import FailedListRequest, JobRequest
from workers.web.routes.search import search
from workers.web.routing import StoreCall

MOST_LOG_LINES = 20
MOST_FAILED = 20

_ACTIONS = {"pause": jobs.pause_job, "resume": jobs.resume_job, "cancel": jobs.cancel_job}


async def read_text(call: StoreCall, asked: ReadTextRequest) -> TextPart:
    reader = StoredTextReader(call.client, call.keys)
    found = await reader.find(asked.name.strip(), Path("/"), call.settings.tracking_param_prefixes)
    if found is None:
        name = redact(asked.name)[:200]
        raise NotFound(f"There is no text of {name}. Find it with `search`, or ask `why` what became of its URL.")
    text = found.markdown if asked.format == "markdown" and found.markdown else found.text
    if asked.offset and asked.offset >= len(text):
        message = f"The text has {len(text)} characters; offset {asked.offset} is behind its end."
        raise ApiError(422, "invalid", message, "Begin at 0, or at the `next_offset` of the part before.")
    end = asked.offset + asked.max_characters
    part = {
        "text": text[asked.offset : end],
        "offset": asked.offset,
        "next_offset": end if end < len(text) else None,
        "total_characters": len(text),
    }
    return TextPart.model_validate(asdict(found) | part)


async def list_sources(call: StoreCall, asked: SourcesRequest) -> SourcesAnswer:
    wanted = FeedsRequest(category=asked.category, limit=asked.limit, offset=asked.offset)
    feeds = await list_feeds(call, wanted)
    return SourcesAnswer(
        categories=(await list_categories(call, NoParameters())).categories,
        domains=(await list_domains(call, NoParameters())).domains,
        feeds=[FeedSummary.model_validate(feed.model_dump()) for feed in feeds.feeds],
        feeds_total=feeds.total,
    )


async def show_runs(call: StoreCall, asked: RunStatusRequest) -> RunsAnswer:
    if asked.id is None:
        page = await jobs.list_jobs(call, asked)
        return RunsAnswer(runs=page.jobs, next_offset=page.next_offset, log=[], failed=[])
    one = JobRequest(id=asked.id)
    run, log = await jobs.show_job(call, one), await jobs.show_log(call, one)
    failed = await jobs.list_failed(call, FailedListRequest(id=asked.id, limit=MOST_FAILED))
    return RunsAnswer(runs=[run], next_offset=None, log=log.lines[-MOST_LOG_LINES:], failed=failed.items)


async def control_run(call: StoreCall, asked: RunControlRequest) -> RunState:
    return await _ACTIONS[asked.action](call, JobRequest(id=asked.id))


TOOLS: tuple[ToolDeclaration[Any, Any], ...] = (
    tool(
        search,
        name="search",
        title="Search",
        description="Search articles, pages and files by words and by meaning. Each result has the passages that "
        "match, and says when and how its text was last proved to be current. `get_article` reads one in full.",
        readable=texts.of_search,
    ),
    tool(
        read_text,
        name="get_article",
        title="Read an article, a page or a file",
        description="The clean text of one article, page or file, by an id, a uid or any of its URLs. A long text "
        "comes in parts: read on with `offset` set to the `next_offset` of the part before.",
        readable=texts.of_text,
    ),
    tool(
        list_articles,
        name="articles",
        title="List articles",
        description="Headlines of the articles that feeds brought, newest first, by category, host, language and the "
        "time they were stored. `cursor` brings the next page.",
        request=ListArticlesRequest,
        readable=texts.of_articles,
    ),
    tool(
        explain,
        name="why",
        title="Why is a URL there, or not?",
        description="The whole trail of a URL: who lists it, what became of it, where it stopped and what to do. Use "
        "it when a page is missing or looks old. Nothing is changed or requested.",
        readable=texts.of_trail,
    ),
    tool(
        list_sources,
        name="list_sources",
        title="List sources",
        description="Where content comes from: categories, feeds with their health, and domains, which are sites, "
        "folders and repositories. Their names are the filters of `search` and `articles`.",
        readable=texts.of_sources,
    ),
    tool(
        add_url,
        name="add_url",
        title="Add a URL",
        description="Have a page fetched and kept fresh: as a single page, as an article of a category, or as a page "
        "of a domain. A known one is checked now. It is found once a worker has read it; `why` shows how far it is.",
        readable=texts.of_added_url,
        is_read_only=False,
        is_open_world=True,
    ),
    tool(
        show_runs,
        name="run_status",
        title="Runs and their progress",
        description="The last passes over sources (crawls, refreshes, reindexing), newest first, by kind, domain and "
        "status; with an id that one, with its log and what failed.",
        readable=texts.of_runs,
    ),
    tool(
        control_run,
        name="run_control",
        title="Pause, resume or cancel a run",
        description="Pause a run until it is resumed, go on with it from where it stopped, or end it before its time; "
        "what is done stays.",
        readable=texts.of_run,
        is_read_only=False,
        is_destructive=True,
        is_idempotent=False,
    ),
)
