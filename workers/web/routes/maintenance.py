"""The whole store: status, export, forget, doctor."""

from __future__ import annotations

from aiohttp import web
from pydantic import Field, model_validator

from core.doctor.io.doctor import Doctor
from core.registry.io.forget_by_name import forget_page, forget_subscription
from core.runtime.store_status import collect_status
from core.search.io.export import Exporter, ExportFilter, export_lines
from core.sources.io.domain_setup import remove_domain
from core.urls.secrets import redact
from workers.web.models import AnswerModel, Moment, Name, NoParameters, RequestModel
from workers.web.routes.domains import RemovalAnswer
from workers.web.routing import JSON, Call, RouteTable

ROUTES = RouteTable("operation")
JSON_LINES = "application/x-ndjson"


class ExportRequest(RequestModel):
    """What is exported; empty: everything that has a text."""

    category: Name = ""
    domain: Name = ""
    since: Moment = Field(default="", description="Stored or changed since: a date, or 30m, 2h, 3d.")
    until: Moment = ""


class ForgetRequest(RequestModel):
    """What is to go: a page by any of its names, a feed, or a domain."""

    name: str = Field(default="", max_length=8_000, description="A URL, an item id or the uid of an article.")
    feed: str = Field(default="", max_length=8_000, description="The URL of a feed.")
    domain: Name = ""
    dry_run: bool = Field(default=False, description="Only say how much that is.")

    @model_validator(mode="after")
    def _one_choice(self) -> ForgetRequest:
        if sum(map(bool, (self.name, self.feed, self.domain))) != 1:
            raise ValueError("give one of name, feed and domain")
        return self


class DoctorRequest(RequestModel):
    """A check of a sample."""

    sample: int = Field(default=50, ge=1, le=500, description="Items of each kind.")
    fix: bool = Field(default=False, description="Repair what is wrong.")


class FindingAnswer(AnswerModel):
    """Something that is not as it should be."""

    problem: str
    name: str


class DoctorAnswer(AnswerModel):
    """What a check found."""

    checked: int
    findings: list[FindingAnswer]
    is_repaired: bool
    warnings: list[str] = Field(description="What only a person can change.")


@ROUTES.add("GET", "/api/status", other_types=(JSON,))
async def show_status(call: Call, _: NoParameters) -> web.Response:
    """The store, the last cycle, sources, runs and queues, as `scripts.status --json` prints them."""
    return web.json_response(await collect_status(call.settings, call.client, call.keys))


@ROUTES.add("GET", "/api/export", other_types=(JSON_LINES,), seconds=None)
async def export(call: Call, asked: ExportRequest) -> web.StreamResponse:
    """Articles, pages and files with their texts, as JSON Lines."""
    since_ts, until_ts = await call.moment(asked.since), await call.moment(asked.until, is_end=True)
    wanted = ExportFilter(asked.category, asked.domain, since_ts, until_ts)
    await Exporter(call.client, call.keys, wanted).check()
    response = web.StreamResponse(headers={"Content-Type": f"{JSON_LINES}; charset=utf-8"})
    await response.prepare(call.http)
    if not call.is_head:
        async for line in export_lines(call.client, call.keys, wanted):
            await response.write(f"{line}\n".encode(errors="replace"))
    await response.write_eof()
    return response


@ROUTES.add("POST", "/api/forget", fields_in="body", is_destructive=True, seconds=None)
async def forget(call: Call, asked: ForgetRequest) -> RemovalAnswer:
    """Forget a page, a feed or a domain with everything that belongs to it."""
    if asked.domain:
        counts = await remove_domain(call.settings, call.client, call.keys, asked.domain, dry_run=asked.dry_run)
    elif asked.feed:
        counts, _ = await forget_subscription(call.client, call.keys, asked.feed, dry_run=asked.dry_run)
    else:
        counts = await forget_page(call.settings, call.client, call.keys, asked.name, dry_run=asked.dry_run)
    return RemovalAnswer.of(redact(asked.domain or asked.feed or asked.name), counts, dry_run=asked.dry_run)


@ROUTES.add("POST", "/api/doctor", fields_in="body")
async def check_sample(call: Call, asked: DoctorRequest) -> DoctorAnswer:
    """Check a sample of the store, and repair it on request.

    The timer does so every minute; `freshet doctor` checks the whole store.
    """
    doctor = Doctor(call.client, call.keys, call.settings)
    findings = await doctor.check_sample(asked.sample)
    if asked.fix and findings:
        await doctor.repair(findings, await call.now())
    return DoctorAnswer(
        checked=doctor.checked,
        findings=[FindingAnswer(problem=str(one.problem), name=redact(one.name)) for one in findings],
        is_repaired=asked.fix and bool(findings),
        warnings=await doctor.warnings(),
    )
