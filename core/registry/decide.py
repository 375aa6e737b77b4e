"""Decide what a visit means: the heart.

Takes an item, what its visit found, and the time; returns what should be written. Reads no clock, opens no connection,
logs nothing. Deletion needs evidence (design §6.9), force is one counter (§6.10), every exit has a next check (§6.12).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from core import schedule
from core.errors import FailDetail
from core.registry.outcomes import Broken, Changed, Excluded, Missing, Moved, Outcome, Parked, Unchanged
from core.registry.record import ERROR_CHARS, Item, Status, iso, iso_of_http_date, redirects_json, visited_fields

DAY_SECONDS = 86_400.0


class TextAction(StrEnum):
    """What happens to the text we have."""

    KEEP = "keep"
    REPLACE = "replace"
    HIDE = "hide"
    """Out of search at once; where it can be kept for its return, it is."""
    DELETE = "delete"


class VisitResult(StrEnum):
    """How a visit is counted; each has exactly one."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    GONE = "gone"
    FAILED = "failed"
    EXCLUDED = "excluded"


@dataclass(frozen=True, slots=True)
class RecheckPolicy:
    """The settings that `decide` obeys."""

    base_seconds: float = DAY_SECONDS
    max_seconds: float = 14 * DAY_SECONDS
    error_base_seconds: float = 600.0
    gone_after_checks: int = 3
    longest_seconds: float | None = None
    """A shorter limit for things with a life of their own: articles, the root of a site."""

    def capped(self, seconds: float) -> RecheckPolicy:
        """The same, with checks at least so often."""
        return replace(self, longest_seconds=seconds)


@dataclass(frozen=True, slots=True)
class VisitContext:
    """What is true around the visit, and not in its answer."""

    generation: int | None = None
    """The item's generation at the moment of the commit; None: as it was when the visit began."""
    is_site_down: bool = False
    """The root of its source fails too: a missing page proves nothing."""
    loss_refused: str = ""
    """Why nothing may be removed now: the source would lose too much."""


DEFAULT_POLICY = RecheckPolicy()
NOTHING_SPECIAL = VisitContext()


@dataclass(slots=True)
class Decision:
    """What should be written."""

    status: Status
    count: VisitResult
    text: TextAction
    next_at: float | None
    """None: not before somebody asks."""
    fields: dict[str, str]
    event: str = ""
    is_conclusive: bool = True
    """False: nothing was learnt about the item itself, so a force is not used up."""


def decide(
    item: Item,
    outcome: Outcome,
    now: float,
    chance: float,
    policy: RecheckPolicy | None = None,
    around: VisitContext | None = None,
) -> Decision:
    """What the outcome means for the item. `chance` in [0, 1) spreads the next checks."""
    policy, around = policy or DEFAULT_POLICY, around or NOTHING_SPECIAL
    decision = _decide(item, outcome, now, chance, policy, around)
    generation = item.generation if around.generation is None else around.generation
    processed = item.generation if decision.is_conclusive else item.processed_generation
    is_wanted_again = generation > processed
    if is_wanted_again and decision.is_conclusive:  # somebody forced it while we were at it: at once again
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
    return decision


def _decide(
    item: Item, outcome: Outcome, now: float, chance: float, policy: RecheckPolicy, around: VisitContext
) -> Decision:
    match outcome:
        case Changed():
            return _changed(item, outcome, now, chance, policy)
        case Unchanged():
            return _unchanged(item, outcome, now, chance, policy)
        case Missing() if around.is_site_down:
            why = f"{outcome.reason or f'HTTP {outcome.http_status}'}, but the whole site is down"
            return _failed(item, why, now, chance, policy)
        case Missing() if around.loss_refused and item.has_text:
            return _failed(item, around.loss_refused, now, chance, policy)
        case Missing():
            return _missing(item, outcome, now, chance, policy)
        case Broken():
            failed = outcome.failed
            told = failed.text or f"{failed.code}/{failed.detail}"
            decision = _failed(item, told, now, chance, policy, failed.retry_after_seconds, failed.http_status)
            # The same bytes would kill their reader again: not before the longest backoff.
            is_fatal = failed.detail in (FailDetail.CPU, FailDetail.MEMORY, FailDetail.CRASH)
            return _waiting(decision, now, schedule.DAY_SECONDS) if is_fatal else decision
        case Excluded():
            return _excluded(item, outcome, now, chance, policy)
        case Moved():
            return _moved(item, outcome, now, chance, policy)
        case Parked():
            return Decision(
                Status.ERROR,
                VisitResult.FAILED,
                TextAction.KEEP,
                None,
                {"errorMessage": outcome.sentence},
                is_conclusive=False,
            )


# ── there is a text ─────────────────────────────────────────────────────────────────────────────


def _changed(item: Item, outcome: Changed, now: float, chance: float, policy: RecheckPolicy) -> Decision:
    """A text to store. New to search only if it differs or was asked for; a new title alone needs no new chunks."""
    is_new_text = outcome.visit.content_hash != item.content_hash or not item.has_text
    is_news = is_new_text or outcome.is_new_metadata
    streak = 0 if is_news else item.unchanged_streak + 1
    interval = _interval(streak, policy)
    fields = {
        **visited_fields(outcome.visit),
        **_healthy(),
        "visitedVersion": item.listed_version,
        "unchangedStreak": str(streak),
        "conditionalStreak": "0",
        "crawlIntervalSeconds": f"{interval:.0f}",
    }
    if is_news:
        fields |= {"lastChanged": iso(now), "changedTs": f"{now:.3f}"}
    status = Status.CRAWLED if is_new_text or item.is_forced else _status_of(item)
    count, event = (VisitResult.CHANGED, "item.changed") if is_news else (VisitResult.UNCHANGED, "")
    return Decision(status, count, TextAction.REPLACE, _next(now, interval, chance), fields, event)


def _unchanged(item: Item, outcome: Unchanged, now: float, chance: float, policy: RecheckPolicy) -> Decision:
    streak = item.unchanged_streak + 1
    interval = _interval(streak, policy)
    is_304 = outcome.http_status == 304
    is_well = item.status in (Status.CRAWLED, Status.INDEXED)
    fields = {
        **({} if is_well else _healthy() | {"httpRobotsAllowed": "true"}),
        "httpStatusCode": str(outcome.http_status),
        "visitedVersion": item.listed_version,
        "unchangedStreak": str(streak),
        "conditionalStreak": str(item.conditional_streak + 1 if is_304 else 0),
        "crawlIntervalSeconds": f"{interval:.0f}",
        **(visited_fields(outcome.visit) if outcome.visit else _seen_again(item, outcome)),
    }
    return Decision(_status_of(item), VisitResult.UNCHANGED, TextAction.KEEP, _next(now, interval, chance), fields)


def _seen_again(item: Item, outcome: Unchanged) -> dict[str, str]:
    """What an answer without a new text tells all the same; only what differs is written."""
    fields: dict[str, str] = {}
    if outcome.etag:
        fields |= {"httpEtag": outcome.etag} | ({"fileEtag": outcome.etag} if item.type == "file" else {})
    if outcome.last_modified:
        fields["httpLastModified"] = outcome.last_modified
        if item.type == "file":
            fields["fileLastModified"] = iso_of_http_date(outcome.last_modified)
    chain = redirects_json(outcome.redirects)
    if chain != (item.redirect_chain or redirects_json(())):
        fields["httpRedirectChain"] = chain
    if outcome.canonical_url and outcome.canonical_url != item.canonical_url:
        fields["httpCanonicalUrl"] = outcome.canonical_url
    return fields


def _moved(item: Item, outcome: Moved, now: float, chance: float, policy: RecheckPolicy) -> Decision:
    """An alias has no text of its own; it is looked at as often as a page that never changes."""
    streak = item.unchanged_streak + 1
    interval = _interval(streak, policy)
    fields = {
        **_healthy(),
        "aliasOf": outcome.target_id,
        "httpStatusCode": str(outcome.visit.http_status),
        "httpRedirectChain": redirects_json(outcome.visit.redirects),
        "httpRobotsAllowed": "true",
        "httpCanonicalUrl": outcome.visit.canonical_url,
        "contentHash": "",
        "textHash": "",
        "visitedVersion": item.listed_version,
        "unchangedStreak": str(streak),
        "crawlIntervalSeconds": f"{interval:.0f}",
    }
    event = "item.moved" if item.has_text else ""
    return Decision(
        Status.INDEXED, VisitResult.UNCHANGED, TextAction.DELETE, _next(now, interval, chance), fields, event
    )


def _status_of(item: Item) -> Status:
    """Where an item with its text in the store stands: search knows it, or not yet."""
    if item.alias_of:
        return Status.INDEXED
    return Status.INDEXED if item.indexed_hash and item.indexed_hash == item.content_hash else Status.CRAWLED


def _healthy() -> dict[str, str]:
    return {"errorMessage": "", "consecutiveFailures": "0", "missingChecks": "0", "missingSinceTs": "0", "goneTs": ""}


# ── there is none ───────────────────────────────────────────────────────────────────────────────


def _missing(item: Item, outcome: Missing, now: float, chance: float, policy: RecheckPolicy) -> Decision:
    """410 is gone at once; 404 hides at once and is a tombstone after enough checks over a day (trap T60)."""
    checks = item.missing_checks + 1
    since = item.missing_since or now
    is_gone = outcome.is_certain or item.status is Status.GONE
    is_gone = is_gone or (checks >= policy.gone_after_checks and now - since >= DAY_SECONDS)
    what = outcome.reason or f"HTTP {outcome.http_status}"
    fields = {
        "missingChecks": str(checks),
        "missingSinceTs": f"{since:.3f}",
        "errorMessage": what if is_gone else f"{what} ({_until_gone(checks, policy)})",
        "conditionalStreak": "0",
    }
    if outcome.http_status and not outcome.reason:
        fields["httpStatusCode"] = str(outcome.http_status)
    event = "item.gone" if item.has_text else ""
    if not is_gone:
        wait = min(policy.base_seconds, DAY_SECONDS / 2)
        text = TextAction.HIDE if item.has_text else TextAction.KEEP
        return _waiting(Decision(Status.ERROR, _missing_count(item), text, None, fields, event), now, wait, chance)
    if item.status is not Status.GONE:
        fields["goneTs"] = f"{now:.3f}"
    decision = Decision(Status.GONE, _missing_count(item), TextAction.DELETE, None, fields, event)
    return _waiting(decision, now, policy.max_seconds, chance)


def _until_gone(checks: int, policy: RecheckPolicy) -> str:
    if checks < policy.gone_after_checks:
        return f"{checks} of {policy.gone_after_checks} checks before it counts as gone"
    return "it counts as gone a day after it was first missing"


def _missing_count(item: Item) -> VisitResult:
    """Counted when it goes, not at each look at the empty place. What was never there is a broken link."""
    if item.has_text:
        return VisitResult.GONE
    return VisitResult.UNCHANGED if item.missing_checks else VisitResult.FAILED


def _waiting(decision: Decision, now: float, seconds: float, chance: float = 0.5) -> Decision:
    """The same, with the next check after so long; the record says so too."""
    decision.fields["crawlIntervalSeconds"] = f"{seconds:.0f}"
    return replace(decision, next_at=_next(now, seconds, chance))


def _failed(
    item: Item,
    why: str,
    now: float,
    chance: float,
    policy: RecheckPolicy,
    retry_after: float | None = None,
    status: int = 0,
) -> Decision:
    """What we have stays; we come back later and later, never earlier than we were asked."""
    failures = item.failures + 1
    wait = schedule.item_backoff_seconds(failures, policy.error_base_seconds)
    next_at = schedule.retry_at(now, schedule.jittered_both(wait, chance), retry_after)
    fields = {
        "consecutiveFailures": str(failures),
        "errorMessage": why[:ERROR_CHARS],
        "crawlIntervalSeconds": f"{max(wait, retry_after or 0.0):.0f}",
    }
    if status:
        fields["httpStatusCode"] = str(status)
    kept = Status.GONE if item.status is Status.GONE else Status.ERROR
    return Decision(kept, VisitResult.FAILED, TextAction.KEEP, next_at, fields, is_conclusive=False)


def _excluded(item: Item, outcome: Excluded, now: float, chance: float, policy: RecheckPolicy) -> Decision:
    """Nothing for us now. It may be tomorrow, so it is asked again, ever more seldom; mostly what we have stays."""
    is_new_content = bool(outcome.content_hash) and outcome.content_hash != item.content_hash
    streak = 0 if is_new_content else item.unchanged_streak + 1
    interval = _interval(streak, policy)
    fields = {
        **_healthy(),
        "httpRobotsAllowed": "false" if outcome.is_by_robots else "true",
        "errorMessage": outcome.reason[:ERROR_CHARS],
        "visitedVersion": item.listed_version,
        "unchangedStreak": str(streak),
        "crawlIntervalSeconds": f"{interval:.0f}",
    }
    if outcome.http_status:
        fields |= {"httpStatusCode": str(outcome.http_status), "httpContentLength": str(outcome.content_length)}
    if outcome.mime_type:
        fields["mimeType"] = outcome.mime_type
    if is_new_content:
        fields |= {"contentHash": outcome.content_hash, "bodyHash": outcome.content_hash}
        fields |= {"lastChanged": iso(now), "changedTs": f"{now:.3f}"}
    is_taken_back = outcome.is_withdrawn and item.has_text
    text, event = (TextAction.DELETE, "item.gone") if is_taken_back else (TextAction.KEEP, "")
    return Decision(Status.OUT_OF_SCOPE, VisitResult.EXCLUDED, text, _next(now, interval, chance), fields, event)


# ── when ────────────────────────────────────────────────────────────────────────────────────────


def _interval(unchanged_streak: int, policy: RecheckPolicy) -> float:
    seconds = schedule.ladder_seconds(unchanged_streak, policy.base_seconds, policy.max_seconds)
    return min(seconds, policy.longest_seconds or seconds)


def _next(now: float, seconds: float, chance: float) -> float:
    return now + schedule.jittered_both(seconds, chance)


def should_ask_conditionally(
    item: Item, *, extractor_version: str, has_snapshot: bool, is_trusted: bool, audit_every: int
) -> bool:
    """May the answer be 304? Only if we have the text it would confirm, and now and then not even then.

    Some servers answer 304 for ever, so every so many checks the whole page is asked for (trap T56).
    """
    can_use = item.has_text and (item.extractor_version == extractor_version or has_snapshot)
    is_audit = item.conditional_streak >= audit_every - 1
    return can_use and bool(item.etag or item.last_modified) and not item.is_forced and is_trusted and not is_audit
