"""Runs as the API shows them, where they are called jobs."""

from __future__ import annotations

from typing import Self

from pydantic import Field, JsonValue

from core.runs.run import FailedItem, Run, RunKind, RunPhase, RunStatus, run_json
from workers.web.models import AnswerModel, shown


class Job(AnswerModel):
    """A run: one pass over a source, a domain or something else."""

    id: str = Field(examples=["jb_1763337600_0a1b2c3d"])
    kind: RunKind
    status: RunStatus
    domain: str
    source: str
    mode: str
    parent: str = Field(description="The run of the domain that this crawl of a source is a part of.")
    parameters: dict[str, str]
    started_by: str
    phase: RunPhase
    progress: int = Field(ge=0, le=100, description="Percent.")
    message: str
    error: str
    problem: str = Field(
        description="Why it is only partial: held, incomplete, unpublished; empty if only items failed."
    )
    created_at: str | None = Field(description="ISO 8601, as all times.")
    started_at: str | None
    ended_at: str | None
    heartbeat_at: str | None
    in_flight: int = Field(description="Items that workers have in hand; while it is pausing, what it waits for.")
    left: int = Field(description="Items that were still due at its end.")
    counts: dict[str, int]
    metrics: dict[str, float] = Field(description="What its workers measured.")
    statistics: dict[str, JsonValue] = Field(description="What the steps did to a SharePoint source; else empty.")
    receipt: str = Field(description="Digest over item ids and content hashes; equal results have equal receipts.")

    @classmethod
    def of(cls, run: Run) -> Self:
        return cls.model_validate(run_json(run))


class JobPage(AnswerModel):
    """Some jobs, newest first."""

    jobs: list[Job]
    next_offset: int | None = Field(description="Where the next page begins; null if this is the last one.")


class JobLog(AnswerModel):
    """The end of a job's log."""

    id: str
    lines: list[str] = Field(description="At most the last 200, oldest first.")


shown(FailedItem, "FailedJobItem")


class FailedJobItems(AnswerModel):
    """Items that failed in a job and did not succeed since, the last first."""

    id: str
    items: list[FailedItem]


class RetryAnswer(AnswerModel):
    """What a retry has set going."""

    job: Job
    items: int = Field(description="Failed items that are due again.")


class DomainJobs(AnswerModel):
    """The jobs of a domain that a request concerned."""

    domain_id: str
    jobs: list[Job]


class ApprovalAnswer(AnswerModel):
    """What an approval has set going."""

    domain_id: str
    sources: list[str] = Field(description="Those that may lose what is missing, for a day.")
    job: Job
