"""The table of tools: what agents can do, and what each tool does to the store."""

from __future__ import annotations

from typing import Any

from core.registry.io.url_adder import AddedUrl
from core.runtime.api_results import ExplainedUrl, RunState
from workers.mcp import reading, texts
from workers.mcp.declaration import ToolDeclaration
from workers.mcp.models import (
    ListArticlesRequest,
    ReadTextRequest,
    RunControlRequest,
    RunsAnswer,
    RunStatusRequest,
    SourcesAnswer,
    SourcesRequest,
    TextPart,
)
from workers.web.routes import jobs
from workers.web.routes.articles import ArticlesAnswer, list_articles
from workers.web.routes.documents import AddUrlRequest, add_url
from workers.web.routes.items import WhyRequest, explain
from workers.web.routes.jobs import FailedListRequest, JobRequest
from workers.web.routes.search import SearchAnswer, SearchRequest, search
from workers.web.routing import StoreCall

MOST_LOG_LINES = 20
MOST_FAILED = 20

_ACTIONS = {"pause": jobs.pause_job, "resume": jobs.resume_job, "cancel": jobs.cancel_job}


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
    ToolDeclaration(
        name="search",
        title="Search",
        description="Search articles, pages and files by words and by meaning. Each result has the passages that "
        "match, and says when and how its text was last proved to be current. `get_article` reads one in full.",
        request=SearchRequest,
        answer=SearchAnswer,
        handler=search,
        readable=texts.of_search,
    ),
    ToolDeclaration(
        name="get_article",
        title="Read an article, a page or a file",
        description="The clean text of one article, page or file, by an id, a uid or any of its URLs. A long text "
        "comes in parts: read on with `offset` set to the `next_offset` of the part before.",
        request=ReadTextRequest,
        answer=TextPart,
        handler=reading.read_text,
        readable=texts.of_text,
    ),
    ToolDeclaration(
        name="articles",
        title="List articles",
        description="Headlines of the articles that feeds brought, newest first, by category, host, language and the "
        "time they were stored. `cursor` brings the next page.",
        request=ListArticlesRequest,
        answer=ArticlesAnswer,
        handler=list_articles,
        readable=texts.of_articles,
    ),
    ToolDeclaration(
        name="why",
        title="Why is a URL there, or not?",
        description="The whole trail of a URL: who lists it, what became of it, where it stopped and what to do. Use "
        "it when a page is missing or looks old. Nothing is changed or requested.",
        request=WhyRequest,
        answer=ExplainedUrl,
        handler=explain,
        readable=texts.of_trail,
    ),
    ToolDeclaration(
        name="list_sources",
        title="List sources",
        description="Where content comes from: categories, feeds with their health, and domains, which are sites, "
        "folders and repositories. Their names are the filters of `search` and `articles`.",
        request=SourcesRequest,
        answer=SourcesAnswer,
        handler=reading.list_sources,
        readable=texts.of_sources,
    ),
    ToolDeclaration(
        name="add_url",
        title="Add a URL",
        description="Have a page fetched and kept fresh: as a single page, as an article of a category, or as a page "
        "of a domain. A known one is checked now. It is found once a worker has read it; `why` shows how far it is.",
        request=AddUrlRequest,
        answer=AddedUrl,
        handler=add_url,
        readable=texts.of_added_url,
        is_read_only=False,
        is_open_world=True,
    ),
    ToolDeclaration(
        name="run_status",
        title="Runs and their progress",
        description="The last passes over sources (crawls, refreshes, reindexing), newest first, by kind, domain and "
        "status; with an id that one, with its log and what failed.",
        request=RunStatusRequest,
        answer=RunsAnswer,
        handler=show_runs,
        readable=texts.of_runs,
    ),
    ToolDeclaration(
        name="run_control",
        title="Pause, resume or cancel a run",
        description="Pause a run until it is resumed, go on with it from where it stopped, or end it before its time; "
        "what is done stays.",
        request=RunControlRequest,
        answer=RunState,
        handler=control_run,
        readable=texts.of_run,
        is_read_only=False,
        is_destructive=True,
        is_idempotent=False,
    ),
)
