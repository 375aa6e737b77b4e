"""Decide what a visit means for its item.

Takes an item, the outcome of its visit and the time; returns what should be written. Reads no clock, opens no
connection, logs nothing. Deletion needs evidence (docs/architecture.md#deletion), a force is one counter (#force), and
every decision has a next check (#schedule).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from core import schedule
from core.errors import FailDetail
from core.models import Failed, TextSource
from core.registry.outcomes import Broken, Changed, Excluded, Missing, Moved, Outcome, Parked, Unchanged
from core.registry.page_visit import NO_REDIRECTS, iso_of_http_date, redirects_json, visited_fields
from core.registry.record import ERROR_CHARS, Item, Status, iso
from core.registry.verification import VerifiedBy
from core.value_class import value_class

DAY_SECONDS = 86_400.0


class TextAction(StrEnum):
    """What happens to the stored text."""

    KEEP = "keep"
    REPLACE = "replace"
    HIDE = "hide"
    """Out of search at once; an article is kept for its return."""
    DELETE = "delete"


class VisitResult(StrEnum):
    """How a visit is counted; each has exactly one."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    GONE = "gone"
    FAILED = "failed"
    EXCLUDED = "excluded"


@value_class
class RecheckPolicy:
    """How often items are checked again, and after how many checks one is gone: numbers of `core/settings.py`."""

    base_seconds: float
    max_seconds: float
    error_base_seconds: float
    gone_after_checks: int
    longest_seconds: float | None = None
    """A shorter limit for articles, which expire, and for the root of a site."""

    def every(self, seconds: float) -> RecheckPolicy:
        """Return the policy of a source with an interval of its own: the first wait, and the longest at least."""
        return replace(self, base_seconds=seconds, max_seconds=max(self.max_seconds, seconds))

    def capped(self, seconds: float) -> RecheckPolicy:
        """Return the same policy with at most this time between checks."""
        return replace(self, longest_seconds=seconds)


@value_class
class VisitContext:
    """What a decision depends on beside the outcome."""

    generation: int | None = None
    """The item's generation at the commit; None: as it was when the visit began."""
    is_site_down: bool = False
    """The root of its source fails too: a missing page proves nothing."""
    loss_refused: str = ""
    """Why nothing may be removed now: the source would lose too much."""


NO_CONTEXT = VisitContext()


@dataclass(slots=True)
class Decision:
    """What to write after a visit."""

    status: Status
    count: VisitResult
    text: TextAction
    next_at: float | None
    """None: not before a reindex."""
    fields: dict[str, str]
    event: str = ""
    is_conclusive: bool = True
    """False: the visit learnt nothing about the item, so a force is not used up."""
    verified_by: VerifiedBy | None = None
    """How this visit proved that the stored text is the current one; None: it did not."""


@value_class
class _Timing:
    """The time, a random number and the policy, from which the next check follows."""

    now: float
    chance: float
    policy: RecheckPolicy

    def next_at(self, seconds: float) -> float:
        return self.now + schedule.jittered_both(seconds, self.chance)

    def checked(self, item: Item, unchanged_streak: int) -> tuple[dict[str, str], float]:
        """Return the fields of a finished check, and when the next one is."""
        policy = self.policy
        interval = schedule.ladder_seconds(unchanged_streak, policy.base_seconds, policy.max_seconds)
        interval = min(interval, policy.longest_seconds or interval)
        fields = {
            "visitedVersion": item.listed_version,
            "unchangedStreak": str(unchanged_streak),
            "crawlIntervalSeconds": f"{interval:.0f}",
        }
        return fields, self.next_at(interval)


def decide(
    item: Item,
    outcome: Outcome,
    now: float,
    chance: float,
    policy: RecheckPolicy,
    visit_context: VisitContext = NO_CONTEXT,
) -> Decision:
    """Decide what an outcome means for the item. `chance` in [0, 1) spreads the next checks."""
    decision = _decide(item, outcome, _Timing(now, chance, policy), visit_context)
    generation = item.generation if visit_context.generation is None else visit_context.generation
    processed = item.generation if decision.is_conclusive else item.processed_generation
    is_wanted_again = generation > processed
    if is_wanted_again and decision.is_conclusive:  # forced during the visit: due at once
        decision = replace(decision, next_at=now)
    decision.fields |= {
        "status": str(decision.status),
        "lastChecked": iso(now),
        "checkedTs": f"{now:.3f}",
        "crawlAttempts": str(item.attempts + 1),
        "processedGeneration": str(processed),
        "reindexRequested": "true" if is_wanted_again else "false",
        "nextCrawlAt": "" if decision.next_at is None else iso(decision.next_at),
        "lockedUntil": "",
    }
    if decision.verified_by:
        decision.fields |= {"verifiedTs": f"{now:.3f}", "verifiedBy": str(decision.verified_by)}
    return decision


def _decide(item: Item, outcome: Outcome, timing: _Timing, context: VisitContext) -> Decision:
    match outcome:
        case Changed():
            return _changed(item, outcome, timing)
        case Unchanged():
            return _unchanged(item, outcome, timing)
        case Missing() if context.is_site_down:
            why = f"{outcome.reason or f'HTTP {outcome.http_status}'}, but the whole site is down"
            return _failed(item, why, timing)
        case Missing() if context.loss_refused and item.has_text:
            return _failed(item, context.loss_refused, timing)
        case Missing():
            return _missing(item, outcome, timing)
        case Broken():
            return _broken(item, outcome.failed, timing)
        case Excluded():
            return _excluded(item, outcome, timing)
        case Moved():
            return _moved(item, outcome, timing)
        case Parked():
            fields = {"errorMessage": outcome.sentence}
            return Decision(Status.ERROR, VisitResult.FAILED, TextAction.KEEP, None, fields, is_conclusive=False)


# ── there is a text ─────────────────────────────────────────────────────────────────────────────


def _changed(item: Item, outcome: Changed, timing: _Timing) -> Decision:
    """There is a text to store; search indexes it if it differs or was forced. A new title needs no new chunks."""
    is_new_text = outcome.visit.content_hash != item.content_hash or not item.has_text
    is_news = is_new_text or outcome.is_new_metadata
    checked, next_at = timing.checked(item, 0 if is_news else item.unchanged_streak + 1)
    fields = {**visited_fields(outcome.visit), **_healthy(), **checked, "conditionalStreak": "0"}
    if is_news:
        fields |= {"lastChanged": iso(timing.now), "changedTs": f"{timing.now:.3f}"}
    status = Status.CRAWLED if is_new_text or item.is_forced else _status_of(item)
    count, event = (VisitResult.CHANGED, "item.changed") if is_news else (VisitResult.UNCHANGED, "")
    proof = VerifiedBy.FEED if outcome.document.source is TextSource.FEED else VerifiedBy.READ
    return Decision(status, count, TextAction.REPLACE, next_at, fields, event, verified_by=proof)


def _unchanged(item: Item, outcome: Unchanged, timing: _Timing) -> Decision:
    checked, next_at = timing.checked(item, item.unchanged_streak + 1)
    is_304 = outcome.http_status == 304
    is_well = item.status in (Status.CRAWLED, Status.INDEXED)
    fields = {
        **({} if is_well else _healthy() | {"httpRobotsAllowed": "true"}),
        **checked,
        "httpStatusCode": str(outcome.http_status),
        "conditionalStreak": str(item.conditional_streak + 1 if is_304 else 0),
        **(visited_fields(outcome.visit) if outcome.visit else _seen_again(item, outcome)),
    }
    proof = VerifiedBy.NOT_MODIFIED if is_304 else VerifiedBy.FEED if outcome.is_feed_text else VerifiedBy.HASH
    return Decision(_status_of(item), VisitResult.UNCHANGED, TextAction.KEEP, next_at, fields, verified_by=proof)


def _seen_again(item: Item, outcome: Unchanged) -> dict[str, str]:
    """Return what an answer without a new text says all the same; only what differs."""
    fields: dict[str, str] = {}
    is_file = item.type == "file"
    if outcome.etag and (is_file or outcome.etag != item.etag):
        fields |= {"httpEtag": outcome.etag} | ({"fileEtag": outcome.etag} if is_file else {})
    if outcome.last_modified and (is_file or outcome.last_modified != item.last_modified):
        fields["httpLastModified"] = outcome.last_modified
        if is_file:
            fields["fileLastModified"] = iso_of_http_date(outcome.last_modified)
    chain = redirects_json(outcome.redirects)
    if chain != (item.redirect_chain or NO_REDIRECTS):
        fields["httpRedirectChain"] = chain
    if outcome.canonical_url and outcome.canonical_url != item.canonical_url:
        fields["httpCanonicalUrl"] = outcome.canonical_url
    return fields


def _moved(item: Item, outcome: Moved, timing: _Timing) -> Decision:
    """An alias has no text of its own; it is checked as often as a page that never changes."""
    checked, next_at = timing.checked(item, item.unchanged_streak + 1)
    fields = {
        **_healthy(),
        **checked,
        "aliasOf": outcome.target_id,
        "httpStatusCode": str(outcome.visit.http_status),
        "httpRedirectChain": redirects_json(outcome.visit.redirects),
        "httpRobotsAllowed": "true",
        "httpCanonicalUrl": outcome.visit.canonical_url,
        "contentHash": "",
        "textHash": "",
    }
    event = "item.moved" if item.has_text else ""
    return Decision(Status.INDEXED, VisitResult.UNCHANGED, TextAction.DELETE, next_at, fields, event)


def _status_of(item: Item) -> Status:
    """Return the status of an item whose text is stored: search has it, or not yet."""
    is_indexed = bool(item.indexed_hash) and item.indexed_hash == item.content_hash
    return Status.INDEXED if item.alias_of or is_indexed else Status.CRAWLED


def _healthy() -> dict[str, str]:
    return {"errorMessage": "", "consecutiveFailures": "0", "missingChecks": "0", "missingSinceTs": "0", "goneTs": ""}


# ── there is none ───────────────────────────────────────────────────────────────────────────────


def _missing(item: Item, outcome: Missing, timing: _Timing) -> Decision:
    """410 is gone at once; 404 hides at once and is a tombstone after enough checks over a day."""
    policy, now = timing.policy, timing.now
    checks, since = item.missing_checks + 1, item.missing_since or now
    is_gone = outcome.is_certain or item.status is Status.GONE
    is_gone = is_gone or (checks >= policy.gone_after_checks and now - since >= DAY_SECONDS)
    why = outcome.reason or f"HTTP {outcome.http_status}"
    if not is_gone and checks < policy.gone_after_checks:
        why += f" ({checks} of {policy.gone_after_checks} checks before it counts as gone)"
    elif not is_gone:
        why += " (it counts as gone a day after it was first missing)"
    wait = policy.max_seconds if is_gone else min(policy.base_seconds, DAY_SECONDS / 2)
    fields = {
        "missingChecks": str(checks),
        "missingSinceTs": f"{since:.3f}",
        "errorMessage": why,
        "conditionalStreak": "0",
        "crawlIntervalSeconds": f"{wait:.0f}",
    }
    if outcome.http_status and not outcome.reason:
        fields["httpStatusCode"] = str(outcome.http_status)
    if is_gone and item.status is not Status.GONE:
        fields["goneTs"] = f"{now:.3f}"
    # Counted as gone when it goes missing. As long as it may come back, each check is a failure, as the record says.
    count = VisitResult.UNCHANGED if is_gone and item.missing_checks else VisitResult.FAILED
    text, event = TextAction.KEEP, ""
    if item.has_text:
        count, text, event = VisitResult.GONE, TextAction.HIDE, "item.gone"
    if is_gone:
        text = TextAction.DELETE
    return Decision(Status.GONE if is_gone else Status.ERROR, count, text, timing.next_at(wait), fields, event)


def _broken(item: Item, failed: Failed, timing: _Timing) -> Decision:
    why = failed.text or f"{failed.code}/{failed.detail}"
    decision = _failed(item, why, timing, failed.retry_after_seconds, failed.http_status)
    # The same bytes would kill the parse child again: not before the longest backoff.
    if failed.detail in (FailDetail.CPU, FailDetail.MEMORY, FailDetail.CRASH):
        decision.next_at = timing.now + DAY_SECONDS
        decision.fields["crawlIntervalSeconds"] = f"{DAY_SECONDS:.0f}"
    return decision


def _failed(item: Item, why: str, timing: _Timing, retry_after: float | None = None, http_status: int = 0) -> Decision:
    """The stored text stays; checks back off, and never come earlier than Retry-After."""
    failures = item.failures + 1
    wait = schedule.item_backoff_seconds(failures, timing.policy.error_base_seconds)
    next_at = schedule.retry_at(timing.now, schedule.jittered_both(wait, timing.chance), retry_after)
    fields = {
        "consecutiveFailures": str(failures),
        "errorMessage": why[:ERROR_CHARS],
        "crawlIntervalSeconds": f"{max(wait, retry_after or 0.0):.0f}",
    }
    if http_status:
        fields["httpStatusCode"] = str(http_status)
    status = Status.GONE if item.status is Status.GONE else Status.ERROR
    return Decision(status, VisitResult.FAILED, TextAction.KEEP, next_at, fields, is_conclusive=False)


def _excluded(item: Item, outcome: Excluded, timing: _Timing) -> Decision:
    """We do not take it now; it is checked again ever less often. Mostly the stored text stays."""
    is_new_content = bool(outcome.content_hash) and outcome.content_hash != item.content_hash
    checked, next_at = timing.checked(item, 0 if is_new_content else item.unchanged_streak + 1)
    fields = {
        **_healthy(),
        **checked,
        "httpRobotsAllowed": "false" if outcome.is_by_robots else "true",
        "errorMessage": outcome.reason[:ERROR_CHARS],
    }
    if outcome.http_status:
        fields |= {"httpStatusCode": str(outcome.http_status), "httpContentLength": str(outcome.content_length)}
    if outcome.mime_type:
        fields["mimeType"] = outcome.mime_type
    if is_new_content:
        fields |= {"contentHash": outcome.content_hash, "bodyHash": outcome.content_hash}
        fields |= {"lastChanged": iso(timing.now), "changedTs": f"{timing.now:.3f}"}
    is_withdrawn = outcome.is_withdrawn and item.has_text
    text, event = (TextAction.DELETE, "item.gone") if is_withdrawn else (TextAction.KEEP, "")
    return Decision(Status.OUT_OF_SCOPE, VisitResult.EXCLUDED, text, next_at, fields, event)


def should_ask_conditionally(
    item: Item, *, extractor_version: str, has_snapshot: bool, is_trusted: bool, audit_every: int
) -> bool:
    """Return whether the request should carry validators: only if we have the text that a 304 would confirm.

    Some servers answer 304 for ever, so every so many checks the whole page is requested (an audit).
    """
    can_use = item.has_text and (item.extractor_version == extractor_version or has_snapshot)
    is_audit = item.conditional_streak >= audit_every - 1
    return can_use and bool(item.etag or item.last_modified) and not item.is_forced and is_trusted and not is_audit
