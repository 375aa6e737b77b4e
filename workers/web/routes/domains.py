"""Domains: list, one, add or change, remove."""

from __future__ import annotations

import json
import logging
from typing import Any, Literal, Self

from aiohttp import web
from pydantic import Field, JsonValue, create_model

from core.registry import field_parsing
from core.registry.io.item_forgetter import ForgetCounts, removal_counts
from core.sources.domain_schema import Domain
from core.sources.io import source_kinds
from core.sources.io.domain_file import parse_domain
from core.sources.io.domain_file_sync import DomainFileSync
from core.sources.io.domain_overview import DomainOverview, read_domain, read_domains
from core.sources.io.domain_report import read_report, report_json
from core.sources.io.domain_setup import add_domain, read_quick, remove_domain
from core.sources.io.domain_store import DomainStore
from core.sources.source_record import SOURCES_SUFFIX
from workers.web.errors import ApiError
from workers.web.models import AnswerModel, DomainId, Flag, NoParameters, RequestModel
from workers.web.routing import JSON, Call, RouteTable, StoreCall

Sources = list[dict[str, JsonValue]]
_FIELDS: dict[str, Any] = {
    f"{kind}{SOURCES_SUFFIX}": (Sources, Field(default=[], description="As in a domain.json; see docs/domains.md."))
    for kind in source_kinds.config_models()
}


class DomainBody(RequestModel):
    """The head of a domain.json."""

    id: DomainId
    name: str = Field(default="", max_length=200)
    description: str = Field(default="", max_length=10_000)
    vector_store_name: str = Field(default="", max_length=256, description="Empty: the id of the domain.")
    vector_store_id: str = Field(default="", max_length=200, description="Empty: the first crawl makes a store.")
    index: Literal["redis", "openai"] = Field(default="redis", description="Where its texts are embedded.")


PutDomainRequest: type[DomainBody] = create_model("PutDomainRequest", __base__=DomainBody, **_FIELDS)
"""A whole domain.json. What its sources may say is checked as for a file."""


class QuickDomainRequest(RequestModel):
    """A domain of one source, in a word."""

    what: str = Field(
        min_length=1,
        max_length=2_000,
        description="The address of a site or of a GitHub repository, or a folder below FOLDER_ROOTS.",
        examples=["https://docs.example.org/"],
    )
    id: DomainId | None = Field(default=None, description="A name of your own; else one is made of the address.")


class DomainRequest(RequestModel):
    """One domain."""

    id: DomainId


class RemoveDomainRequest(DomainRequest):
    """A domain that is to go with all its items."""

    dry_run: Flag = Field(default=False, description="Only say how much that is.")


class DomainsAnswer(AnswerModel):
    """All domains."""

    domains: list[DomainOverview]
    problems: list[str] = Field(default=[], description="Sentences about files domain.json that cannot be used.")


class DomainDetailsAnswer(AnswerModel):
    """A domain with its sources and its configuration."""

    domain: DomainOverview
    config: dict[str, JsonValue] = Field(description="As in a domain.json.")


class PutDomainAnswer(AnswerModel):
    """What adding a domain did."""

    id: str
    is_new: bool
    sources: list[str]
    removed: dict[str, dict[str, int]] = Field(description="Sources that it no longer has, and what went with them.")
    next_step: str


class RemovalAnswer(AnswerModel):
    """How much was removed, or would be."""

    name: str
    dry_run: bool
    removed: dict[str, int]
    comes_back_by: list[str] = Field(description="Sources that may still list it or link to it.")

    @classmethod
    def of(cls, name: str, counts: ForgetCounts, *, dry_run: bool) -> Self:
        return cls(
            name=name,
            dry_run=dry_run,
            removed=removal_counts(counts),
            comes_back_by=sorted(counts.comes_back_by),
        )


ROUTES = RouteTable("domains")
log = logging.getLogger("web")


# ── files domain.json that were edited ──


def take_up(call: StoreCall) -> DomainFileSync:
    """Return what takes up files; the folders that they name have to be below FOLDER_ROOTS."""
    return DomainFileSync(call.settings, call.client, call.keys, is_own_command=False)


async def take_up_domain(call: StoreCall, domain_id: str) -> None:
    """Take up the file of a domain; one that cannot be used is an error only where there is nothing else to show."""
    if problem := await take_up(call).one_if_usable(domain_id):
        log.warning("⚠️ %s", problem)


# ── the routes ──


@ROUTES.add("GET", "/v2/domains")
async def list_domains(call: StoreCall, _: NoParameters) -> DomainsAnswer:
    """All domains with their sources."""
    problems = await take_up(call).all()
    domains = await read_domains(call.client, call.keys)
    return DomainsAnswer(domains=domains, problems=problems)


@ROUTES.add("GET", "/v2/domains/{id}")
async def show_domain(call: Call, asked: DomainRequest) -> DomainDetailsAnswer:
    """One domain with its configuration and sources."""
    await take_up_domain(call, asked.id)
    domain = await DomainStore(call.client, call.keys).require(asked.id)
    overview = await read_domain(call.client, call.keys, domain)
    return DomainDetailsAnswer(domain=overview, config=field_parsing.mapping(domain.config))


@ROUTES.add("GET", "/v2/domains/{id}/report", other_types=(JSON,))
async def show_report(call: Call, asked: DomainRequest) -> web.Response:
    """The last runs of a domain, what it refused, what is in error."""
    await take_up_domain(call, asked.id)
    report = await read_report(call.settings, call.client, call.keys, asked.id)
    return web.json_response(report_json(report))


@ROUTES.add("POST", "/v2/domains", request=PutDomainRequest, fields_in="body")
async def create_domain(call: Call, asked: DomainBody) -> PutDomainAnswer:
    """Add a domain.

    The body is a domain.json. A folder is only taken below FOLDER_ROOTS: elsewhere only the command of a person on
    this machine may name one.
    """
    await refuse_known(call, asked.id, f"PUT /v2/domains/{asked.id} changes it.")
    return await put_domain(call, asked)


@ROUTES.add("POST", "/v2/quick_domains", fields_in="body")
async def create_quick_domain(call: Call, asked: QuickDomainRequest) -> PutDomainAnswer:
    """Add a domain of one source, by an address or a folder."""
    domain = await read_quick(call.settings, call.client, call.keys, asked.what, asked.id or "")
    await refuse_known(call, domain.id, "Give this one an id of its own.")
    return await store_domain(call, domain)


async def refuse_known(call: Call, domain_id: str, hint: str) -> None:
    """Raise ApiError if there is a domain of this id."""
    await take_up_domain(call, domain_id)
    if await DomainStore(call.client, call.keys).read(domain_id):
        raise ApiError(409, "conflict", f"There is a domain {domain_id} already.", hint)


@ROUTES.add("PUT", "/v2/domains/{id}", request=PutDomainRequest, fields_in="body", is_destructive=True, seconds=None)
async def put_domain(call: Call, asked: DomainBody) -> PutDomainAnswer:
    """Add a domain, or give it another configuration.

    Sources that it no longer has go with their items.
    """
    fields = asked.model_dump(mode="json", exclude_unset=True)
    return await store_domain(call, parse_domain(json.dumps(fields), "/"))


async def store_domain(call: Call, domain: Domain) -> PutDomainAnswer:
    """Store a domain; a folder that only a person's own command may name is refused."""
    added = await add_domain(call.settings, call.client, call.keys, domain, is_own_command=False)
    return PutDomainAnswer(
        id=domain.id,
        is_new=added.is_new,
        sources=[record.sid for record in added.sources],
        removed={sid: removal_counts(counts) for sid, counts in added.removed.items()},
        next_step=f"The timer crawls it; POST /v2/crawler/crawl?domain_id={domain.id} does so now.",
    )


@ROUTES.add("DELETE", "/v2/domains/{id}", is_destructive=True, seconds=None)
async def delete_domain(call: Call, asked: RemoveDomainRequest) -> RemovalAnswer:
    """Remove a domain with all its items.

    Items that other sources list stay.
    """
    counts = await remove_domain(call.settings, call.client, call.keys, asked.id, dry_run=asked.dry_run)
    return RemovalAnswer.of(asked.id, counts, dry_run=asked.dry_run)
