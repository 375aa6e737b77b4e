"""Runs as the API shows them, where they are called jobs."""

from __future__ import annotations

from pydantic import Field

from core.runs.run import FailedItem, Run, run_json
from core.runtime.api_results import RunState
from workers.web.models import AnswerModel, adapter, shown

shown(RunState, "Job")
shown(FailedItem, "FailedJobItem")


def job_of(run: Run) -> RunState:
    """Return a run as the API shows it."""
    job: RunState = adapter(RunState).validate_python(run_json(run))
    return job


class JobPage(AnswerModel):
    """Some jobs, newest first."""

    jobs: list[RunState]
    next_offset: int | None = Field(description="Where the next page begins; null if this is the last one.")


class JobLog(AnswerModel):
    """The end of a job's log."""

    id: str
    lines: list[str] = Field(description="At most the last 200, oldest first.")


class FailedJobItems(AnswerModel):
    """Items that failed in a job and did not succeed since, the last first."""

    id: str
    items: list[FailedItem]


class RetryAnswer(AnswerModel):
    """What a retry has set going."""

    job: RunState
    items: int = Field(description="Failed items that are due again.")


class DomainJobs(AnswerModel):
    """The jobs of a domain that a request concerned."""

    domain_id: str
    jobs: list[RunState]


class ApprovalAnswer(AnswerModel):
    """What an approval has set going."""

    domain_id: str
    sources: list[str] = Field(description="Those that may lose what is missing, for a day.")
    job: RunState
