"""All domains: how each is, and the form that adds one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from aiohttp import web
from pydantic import Field

from core.runs.io.run_list import RunFilter, RunList
from core.runs.run import Run, domain_scope
from core.sources.io.domain_file import parse_domain
from core.sources.io.domain_folder import MOST_FILE_BYTES
from core.sources.io.domain_overview import DomainOverview, SourceOverview, read_domains
from core.sources.io.domain_store import DomainStore
from core.store import connect
from workers.web.dashboard import rendering
from workers.web.dashboard.page_table import Done, PageTable, failure_notice, offset_paths
from workers.web.errors import ApiError
from workers.web.models import Flag, NoParameters, Offset, RequestModel
from workers.web.routes.domains import (
    PutDomainAnswer,
    QuickDomainRequest,
    create_quick_domain,
    refuse_known,
    store_domain,
    take_up,
)
from workers.web.routing import Call

ROUTES = PageTable()
PAGE_DOMAINS = 50
SOURCES_SHOWN = 3
ADD_PATH, FORM, FORM_TITLE = "/domains/add", "domain_add.html", "Add a domain"


class DomainsPageRequest(RequestModel):
    """Which page of the list."""

    offset: Offset = 0


class PasteDomainRequest(RequestModel):
    """A domain.json as text."""

    text: str = Field(max_length=MOST_FILE_BYTES)
    replace: Flag = False


@ROUTES.page("/domains", "Domains", "domains.html")
async def show_domains(call: Call, asked: DomainsPageRequest) -> dict[str, Any]:
    client, keys = call.client, call.keys
    problems = await take_up(call).all()
    domains = await read_domains(client, keys, asked.offset, PAGE_DOMAINS)
    opened = await RunList(client, keys).open(RunFilter(), await connect.now(client))
    paused = (await call.context.runs.blocked()).paused
    total = len(await DomainStore(client, keys).ids())
    return {
        "rows": [_row(one, paused, opened) for one in domains],
        "problems": problems,
        "total": total,
        **offset_paths("/domains", asked, PAGE_DOMAINS, has_more=total > asked.offset + PAGE_DOMAINS),
    }


def _row(domain: DomainOverview, paused: Collection[str], opened: Sequence[Run]) -> dict[str, Any]:
    return {
        "domain": domain,
        "badge": domain_state(domain, paused, [run for run in opened if run.domain == domain.id]),
        "is_paused": is_paused(domain, paused),
        "review": next((source.id for source in domain.sources if source.held), ""),
        "sources": [(source.kind, _place(domain.name, source)) for source in domain.sources[:SOURCES_SHOWN]],
        "items": sum(source.items for source in domain.sources),
        "due": sum(source.due for source in domain.sources),
        "listed_ts": max((source.last_listed_ts or 0.0 for source in domain.sources), default=0.0),
    }


def _place(name: str, source: SourceOverview) -> str:
    """Return where a source is; nothing if the name of the domain says so already."""
    place = source.location or source.id
    bare_place, bare_name = (text.rpartition("://")[2].strip("/") for text in (place, name))
    return "" if bare_place == bare_name else place


def is_paused(domain: DomainOverview, paused: Collection[str]) -> bool:
    return domain_scope(domain.id) in paused


def domain_state(domain: DomainOverview, paused: Collection[str], opened: Sequence[Run]) -> tuple[str, str]:
    """Return how a domain is, as the kind and the text of a badge: what needs a person first."""
    if any(source.held for source in domain.sources):
        return "bad", "stopped by the loss guard"
    if is_paused(domain, paused):
        return "warn", "paused"
    if opened:
        return "busy", str(opened[0].status)
    if any(source.full for source in domain.sources):
        return "warn", "full"
    if not any(source.last_listed_ts for source in domain.sources):
        return "quiet", "not listed yet"
    return "good", "listed"


@ROUTES.page(ADD_PATH, FORM_TITLE, FORM)
async def show_form(call: Call, _: NoParameters) -> dict[str, Any]:
    return _form_values(call)


def _form_values(call: Call) -> dict[str, Any]:
    return {"folder_roots": call.settings.folder_roots, "asked": {}}


def _form_again(call: Call, asked: RequestModel, problem: ApiError) -> web.Response:
    """Return the forms as they were filled in, with why that was refused."""
    values = {**_form_values(call), "asked": asked.model_dump(), "notice": failure_notice(problem), "here": ADD_PATH}
    return rendering.render(call.http, FORM, values, title=FORM_TITLE, status=problem.status)


@ROUTES.action(ADD_PATH, again=_form_again)
async def add(call: Call, asked: QuickDomainRequest) -> Done:
    return _added(await create_quick_domain(call, asked))


@ROUTES.action("/domains/paste", again=_form_again)
async def paste(call: Call, asked: PasteDomainRequest) -> Done:
    domain = parse_domain(asked.text, "/")
    if not asked.replace:
        await refuse_known(call, domain.id, "Tick the box below the text to give it this configuration.")
    return _added(await store_domain(call, domain))


def _added(answer: PutDomainAnswer) -> Done:
    word = "Added" if answer.is_new else "Changed"
    gone = f" No longer in it, with their items: {', '.join(answer.removed)}." if answer.removed else ""
    return Done(f"{word} {answer.id}: {', '.join(answer.sources)}.{gone} It is crawled soon.", f"/domains/{answer.id}")
