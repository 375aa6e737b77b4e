"""`freshet why`, the station of the visit: attempts, failures, retries, and when the next check is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from shlex import quote

from core import schedule
from core.registry import field_parsing, verification
from core.registry.record import Item, Status
from core.registry.time_formatting import ago, ahead, span
from core.registry.verification import VerifiedBy
from core.registry.why_verdict import Station, StationName, StationState, continued, iso_or_empty
from core.value_class import value_class

_MOST_TRIES = len(schedule.LINK_RETRY_SECONDS) + 1
_PROOFS = {
    "": "not by a visit that is remembered",
    VerifiedBy.READ: "read, and new",
    VerifiedBy.HASH: "read, and the same by its hash",
    VerifiedBy.NOT_MODIFIED: "304, not modified",
    VerifiedBy.LISTING: "listed with the version that was read",
    VerifiedBy.FEED: "the feed's own text",
}
_RETRY = "python -m scripts.reindex --force {name} tries it again."
LATE_SECONDS = 900.0
"""After this wait the reason may be a process that is not running."""
_ARE_THEY_RUNNING = "If nothing happens, its process may not be running:"
ARTICLE_ENDED = "The article's TTL ended."


@value_class
class VisitFacts:
    """What is known of the visits of a URL."""

    name: str
    """The URL, for commands."""
    record: Mapping[str, str] = field(default_factory=dict)
    """The registry record; empty: there is none."""
    item: Item | None = None
    failure: Mapping[str, str] = field(default_factory=dict)
    is_attempted: bool = False
    attempted_ts: float = 0.0
    attempted_ttl_seconds: float = 0.0
    retry_ts: float = 0.0
    is_link: bool = False
    """A link set holds it, or a feed's last body."""
    has_text: bool = False
    has_article: bool = False
    is_alias: bool = False
    """It is another page's alias; the station of its identity says which."""
    is_leased: bool = False
    crashes: int = 0
    due: Mapping[str, float] = field(default_factory=dict)
    """By source, when it is checked next."""
    canonical_run_ts: float = 0.0
    """When the canonical fetcher last ended a run; 0: never."""
    runs: tuple[Mapping[str, object], ...] = ()
    """Runs that may have visited it last, newest first."""


def visit_station(facts: VisitFacts, now: float) -> Station:
    """Return the station that says when it was last visited and what came of it."""
    state, sentence, advice = _visit(facts, now)
    if facts.is_leased and state is StationState.STOPPED:
        state = StationState.WAITING
    return Station(StationName.VISIT, state, sentence, _visit_facts(facts), advice)


_Answer = tuple[StationState, str, str]


def _visit(facts: VisitFacts, now: float) -> _Answer:
    item, record = facts.item, facts.record
    if facts.failure and not facts.has_text:
        return _failed_link(facts, now)
    if item is not None and (facts.has_text or facts.has_article or facts.is_alias):
        return _visited(facts, now)
    if facts.is_alias:
        return StationState.PASSED, f"It was visited {ago(facts.attempted_ts, now)}, and led to another page.", ""
    if item is not None and record.get("parentPageId"):
        return StationState.NOT_APPLICABLE, "It is an image; images are not fetched.", ""
    if item is not None:
        return _without_text(facts, item, now)
    if facts.is_attempted:
        when = ago(facts.attempted_ts, now) if facts.attempted_ts else "before"
        sentence = f"It was attempted {when}, and neither an article nor a failure is left of it: it has expired."
        return StationState.STOPPED, sentence, _RETRY.format(name=quote(facts.name))
    if facts.is_link:
        return _new_link(facts, now)
    return StationState.NOT_APPLICABLE, "It was never visited.", ""


def _new_link(facts: VisitFacts, now: float) -> _Answer:
    last = facts.canonical_run_ts
    ran = f"the last one ended {ago(last, now)}" if last else "none has run yet"
    sentence = f"It has not been visited; the canonical fetcher takes new links in its next run ({ran})."
    is_late = now - last > LATE_SECONDS
    return StationState.WAITING, sentence, f"{_ARE_THEY_RUNNING} ./scripts/up starts it." if is_late else ""


def _failed_link(facts: VisitFacts, now: float) -> _Answer:
    failure, tries = facts.failure, field_parsing.integer(facts.failure.get("tries"), 1)
    what = "/".join(filter(None, (failure.get("code", ""), failure.get("detail", ""))))
    text = failure.get("text", "")
    when = ago(field_parsing.timestamp(failure.get("last_ts")), now)
    why = f"The visit {when} failed with {what}" + (f": {continued(text).rstrip('.')}" if text else "")
    if facts.retry_ts and not facts.is_attempted:
        return StationState.WAITING, f"{why}; try {tries} of {_MOST_TRIES}, the next {ahead(facts.retry_ts, now)}.", ""
    until = facts.attempted_ts + facts.attempted_ttl_seconds if facts.attempted_ts else 0.0
    again = f"; it is not tried again for {span(until - now)}" if until > now else ""
    tried = "once" if tries == 1 else f"{tries} times"
    return StationState.STOPPED, f"{why}; tried {tried}{again}.", _RETRY.format(name=quote(facts.name))


def _visited(facts: VisitFacts, now: float) -> _Answer:
    item = facts.item
    assert item is not None
    if item.status in (Status.ERROR, Status.OUT_OF_SCOPE):
        text = continued(facts.record.get("errorMessage", "")).rstrip(".") or "no reason kept"
        kept = "; the last text is kept" if facts.has_text else ""
        return StationState.PASSED, f"Its last check, {ago(item.checked_ts, now)}, failed: {text}{kept}.", ""
    proof = verification.parse(facts.record)
    how = _PROOFS.get(proof.verified_by, proof.verified_by)
    changed = f"; its text changed {ago(item.changed_ts, now)}" if item.changed_ts else ""
    return StationState.PASSED, f"Last verified {ago(proof.verified_ts, now)} ({how}){changed}.", ""


def _without_text(facts: VisitFacts, item: Item, now: float) -> _Answer:
    why = continued(facts.record.get("errorMessage", "")).rstrip(".")
    next_ts = min(facts.due.values(), default=0.0)
    again = f"; the next check is {ahead(next_ts, now)}" if next_ts else ""
    when = ago(item.checked_ts, now)
    reindex = f"python -m scripts.reindex --force {quote(facts.name)} reads it again."
    match item.status:
        case Status.PENDING:
            return _pending(next_ts, now, reindex)
        case Status.GONE if facts.record.get("errorMessage") == ARTICLE_ENDED:
            return StationState.PASSED, f"Last visited {when}.", ""
        case Status.GONE:
            return StationState.STOPPED, f"It is gone: {why or 'nothing is there any more'} ({when}){again}.", reindex
        case Status.OUT_OF_SCOPE:
            return (
                StationState.STOPPED,
                f"It was visited {when} and is not taken: {why or 'out of scope'}{again}.",
                reindex,
            )
        case Status.ERROR if not item.next_crawl_at and not next_ts:
            return StationState.STOPPED, facts.record.get("errorMessage", "") or "It is parked.", reindex
        case Status.ERROR if item.missing_checks:
            return StationState.STOPPED, f"The visit {when} found nothing: {why}{again}.", reindex
        case Status.ERROR:
            count = f", {item.failures} times in a row" if item.failures > 1 else ""
            return StationState.WAITING, f"The visit {when} failed: {why or 'no reason kept'}{count}{again}.", reindex
    return StationState.PASSED, f"Last visited {when}{again}.", ""


def _pending(next_ts: float, now: float, reindex: str) -> _Answer:
    if not next_ts:
        return StationState.STOPPED, "It has not been read yet, and nothing makes it due.", reindex
    if now - next_ts > LATE_SECONDS:
        sentence = f"It has not been read yet; its visit has been due for {span(now - next_ts)}."
        return StationState.WAITING, sentence, f"{_ARE_THEY_RUNNING} python -m scripts.status shows what waits."
    return StationState.WAITING, f"It has not been read yet; its visit is due {ahead(next_ts, now)}.", ""


def _visit_facts(facts: VisitFacts) -> dict[str, object]:
    item, record, failure = facts.item, facts.record, facts.failure
    values: dict[str, object] = {
        "attempted": facts.is_attempted,
        "attempted_at": iso_or_empty(facts.attempted_ts),
        "retry_at": iso_or_empty(facts.retry_ts),
        "failure": {
            **{name: failure.get(name, "") for name in ("code", "detail", "text", "category", "feed")},
            "http_status": field_parsing.integer(failure.get("http_status")) or None,
            "tries": field_parsing.integer(failure.get("tries")),
            "first_at": iso_or_empty(field_parsing.timestamp(failure.get("first_ts"))),
            "last_at": iso_or_empty(field_parsing.timestamp(failure.get("last_ts"))),
        }
        if failure
        else None,
        "crashes": facts.crashes,
    }
    if item is None:
        return values
    proof = verification.parse(record)
    return values | {
        "status": str(item.status),
        "http_status": item.http_status or None,
        "error": record.get("errorMessage", ""),
        "visits": item.attempts,
        "failures_in_a_row": item.failures,
        "missing_checks": item.missing_checks,
        "checked_at": iso_or_empty(item.checked_ts),
        "changed_at": iso_or_empty(item.changed_ts),
        "verified_at": iso_or_empty(proof.verified_ts),
        "verified_by": proof.verified_by,
        "conditional_streak": item.conditional_streak,
        "forced": item.is_forced,
    }


# ── the next check ──────────────────────────────────────────────────────────────────────────────


def next_check_station(facts: VisitFacts, now: float) -> Station:
    """Return the station that says when it is checked next, and why then."""
    item = facts.item
    if item is None:
        if facts.retry_ts and not facts.is_attempted:
            sentence = f"The next try is {ahead(facts.retry_ts, now)}."
            return Station(StationName.NEXT_CHECK, StationState.PASSED, sentence)
        return Station(StationName.NEXT_CHECK, StationState.NOT_APPLICABLE, "It is not an item; nothing checks it.")
    next_ts = min(facts.due.values(), default=0.0)
    values: dict[str, object] = {
        "due": {source: iso_or_empty(at) for source, at in facts.due.items()},
        "interval_seconds": field_parsing.integer(facts.record.get("crawlIntervalSeconds")),
        "unchanged_streak": item.unchanged_streak,
    }
    if not facts.due:
        sentence = "It is not checked again by itself."
        return Station(StationName.NEXT_CHECK, StationState.NOT_APPLICABLE, sentence, values)
    sentence = f"The next check is {ahead(next_ts, now)}: {_why_then(facts, item)}."
    return Station(StationName.NEXT_CHECK, StationState.PASSED, sentence, values)


def _why_then(facts: VisitFacts, item: Item) -> str:
    interval = span(field_parsing.number(facts.record.get("crawlIntervalSeconds")))
    if item.is_forced:
        return "someone asked for it to be read again"
    if not item.attempts:
        return "it is new"
    if item.failures:
        count = f"{item.failures} checks in a row" if item.failures > 1 else "the last check"
        return f"{count} failed, which doubles the wait each time (now {interval}, a day at most)"
    if item.missing_checks:
        return f"it was missing in {_counted(item.missing_checks, 'check')}, so after {interval}"
    if item.listed_version != item.visited_version:
        return "its listing says that it has changed"
    streak = f"unchanged in {_counted(item.unchanged_streak, 'check')}" if item.unchanged_streak else "its text is new"
    return f"{streak}, so after {interval}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def run_station(facts: VisitFacts) -> Station:
    """Return the station that says which run visited it last, as far as runs are remembered."""
    if not facts.runs:
        return Station(StationName.RUN, StationState.UNKNOWN, "No run that is remembered has visited it.")
    run = facts.runs[0]
    sentence = (
        f"The {run.get('kind') or 'crawl'} run {run['id']} ({run.get('status')}) was at work when it was visited."
    )
    return Station(StationName.RUN, StationState.PASSED, sentence, {"runs": [dict(one) for one in facts.runs]})
