"""List what needs a person's attention, the worst first: each with a sentence and a link to repair it."""

from __future__ import annotations

from collections.abc import Iterator

from core.runtime.health_report import HealthStatus
from core.runtime.pipeline_monitor import PipelineState
from core.urls.secrets import redact
from core.value_class import value_class
from workers.web.dashboard.webhook_texts import receiver_of

EMBED_PROBLEM = "Nothing is embedded now:"
WORKERS = "python -m workers refresh reindex embed"
STARTS = (
    ("The timer ", "python -m workers.timer"),
    ("The ingestor ", "python -m workers.ingestor"),
    ("The webhook sender ", "python -m workers.webhooks"),
    ("No worker ", WORKERS),
)
"""How a problem of the processes begins, and the command that ends it."""


@value_class
class Detail:
    """One of the things that a problem is about."""

    text: str
    path: str = ""
    """Its page."""
    note: str = ""
    since_ts: float = 0.0
    action: str = ""
    """The form that mends it."""
    label: str = ""
    """What that form's button says."""
    command: str = ""
    """What to type where no button helps."""


@value_class
class Attention:
    """One thing that needs a person."""

    kind: str
    """`bad` or `warn`."""
    title: str
    text: str = ""
    details: tuple[Detail, ...] = ()
    path: str = ""
    """Where it can be mended."""
    label: str = ""
    action: str = ""
    """A form that mends it; `label` is its button."""


def attention_of(state: PipelineState) -> list[Attention]:
    """Return everything that needs a person, the worst first."""
    checks = (_server, _processes, _sources, _embedder, _webhooks, _feeds)
    found = [one for check in checks for one in check(state)]
    return sorted(found, key=lambda one: one.kind != "bad")


def _server(state: PipelineState) -> Iterator[Attention]:
    for sentence in state.dangers:
        yield Attention("bad", "The server is not as it should be", sentence, path="/doctor", label="Doctor")


def _processes(state: PipelineState) -> Iterator[Attention]:
    by_command: dict[str, str] = {}
    for problem in state.health.problems:
        if not problem.startswith(EMBED_PROBLEM):
            command = next((words for start, words in STARTS if problem.startswith(start)), "")
            by_command[command] = f"{by_command.get(command, '')} {problem}".strip()
    idle = [queue for queue, workers in state.health.workers.items() if not workers]
    if len(idle) > 1:
        by_command[WORKERS] = f"No worker is alive on the queues {', '.join(idle[:-1])} and {idle[-1]}."
    if by_command:
        kind = "bad" if state.health.status is HealthStatus.DOWN else "warn"
        details = tuple(Detail(text, command=command) for command, text in by_command.items())
        yield Attention(kind, "Not everything runs", "./scripts/up starts all of it; or one by one:", details)


def _sources(state: PipelineState) -> Iterator[Attention]:
    held = [notice for notice in state.notices if notice.is_held]
    full = [notice for notice in state.notices if not notice.is_held]
    for notice in held:
        text = redact(notice.text.removeprefix(f"{notice.sid}: ").partition(" If that is right:")[0])  # a command
        path = f"/domains/{notice.domain}"
        yield Attention("bad", f"The loss guard stopped {notice.sid}", text, path=path, label="Review and approve")
    if full:
        details = tuple(Detail(one.sid, f"/domains/{one.domain}", one.text) for one in full)
        yield Attention("warn", "No room for more pages", details=details)


def _embedder(state: PipelineState) -> Iterator[Attention]:
    reason, waiting = state.metrics.backlog.embed_paused, state.metrics.backlog.embed_waiting
    if reason:
        text = f"{redact(reason)} {waiting:,} texts wait; meanwhile they are found by their words."
        yield Attention("warn", "Nothing is embedded", text, action="/embed/resume", label="Try again now")


def _webhooks(state: PipelineState) -> Iterator[Attention]:
    for webhook in state.disabled_webhooks:
        text = f"Nothing is sent to {receiver_of(webhook.url)}: {redact(webhook.status_reason)}"
        action = f"/webhooks/{webhook.id}/resume"
        yield Attention("warn", "A webhook is disabled", text, action=action, label="Send again")


def _feeds(state: PipelineState) -> Iterator[Attention]:
    count = state.metrics.broken_feeds
    if not count:
        return
    details = tuple(
        Detail(
            one.state.title or redact(one.state.url),
            f"/feeds/{one.fid}",
            redact(one.state.error_text),
            one.since_ts,
            f"/feeds/{one.fid}/poll",
            "Poll now",
        )
        for one in state.newest_broken
    )
    title = "One feed is broken" if count == 1 else f"{count:,} feeds are broken"
    yield Attention("warn", title, details=details, path="/feeds?status=broken", label="All broken feeds")
