"""`freshet why`, stations before a visit: address guard, robots.txt, pause, rate limit, lease."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from core.registry.time_formatting import ago, ahead, span
from core.registry.why_verdict import Station, StationName, StationState, iso_or_empty
from core.runs.run import resume_command
from core.value_class import value_class


@value_class
class RobotsFacts:
    origin: str = ""
    is_respected: bool = True
    is_stored: bool = False
    must_wait: bool = False
    """It could not be read, so nothing is fetched for some minutes."""
    is_allowed: bool = True
    rule: str = ""
    fetched_ts: float = 0.0
    until_ts: float = 0.0
    delay_seconds: float = 0.0
    problem: str = ""
    refused_ts: float = 0.0
    """When the last visit was refused by robots.txt; 0 if it was not."""


@value_class
class GateFacts:
    domain: str = ""
    gap_seconds: float = 0.0
    closed_until: float = 0.0
    reason: str = ""
    last_ts: float = 0.0
    next_ts: float = 0.0
    in_line: int = 0
    under_way: int = 0


@value_class
class FetchFacts:
    is_web: bool = True
    is_by_api: bool = False
    """It is read through its source's own interface, to which robots.txt does not apply."""
    guard_refusal: str = ""
    robots: RobotsFacts = field(default_factory=RobotsFacts)
    gate: GateFacts = field(default_factory=GateFacts)
    paused: Mapping[str, str] = field(default_factory=dict)
    """Scope → since when."""
    cancelled: Mapping[str, str] = field(default_factory=dict)
    """Scope → the cancelled run; its items wait for its next one."""
    lease_seconds: float = 0.0
    embed_lease_seconds: float = 0.0
    crashes: int = 0


def fetch_stations(facts: FetchFacts, now: float) -> Sequence[Station]:
    if not facts.is_web:
        guard = robots = gate = "It is a file; no request is needed."
        skipped = StationState.NOT_APPLICABLE
        return (
            Station(StationName.CONNECTION, skipped, guard),
            Station(StationName.ROBOTS, skipped, robots),
            pause_station(facts),
            Station(StationName.RATE_LIMIT, skipped, gate),
            lease_station(facts),
        )
    return (
        connection_station(facts),
        robots_station(facts, now),
        pause_station(facts),
        gate_station(facts.gate, now),
        lease_station(facts),
    )


def connection_station(facts: FetchFacts) -> Station:
    """Return the station that says whether the address guard lets requests to this URL out."""
    if facts.guard_refusal:
        advice = "If the server is yours, name it in FETCH_ALLOWED_HOSTS."
        return Station(StationName.CONNECTION, StationState.STOPPED, facts.guard_refusal, {}, advice)
    sentence = "Scheme and port are open to us; the address that the name stands for is checked at each connection."
    return Station(StationName.CONNECTION, StationState.PASSED, sentence)


def robots_station(facts: FetchFacts, now: float) -> Station:
    """Return the station that says what the robots.txt of its site allows, as far as it is stored."""
    robots = facts.robots
    values: dict[str, object] = {
        "origin": robots.origin,
        "rule": robots.rule,
        "allowed": robots.is_allowed if robots.is_stored else None,
        "fetched_at": iso_or_empty(robots.fetched_ts),
        "valid_until": iso_or_empty(robots.until_ts),
        "crawl_delay_seconds": robots.delay_seconds,
        "problem": robots.problem,
    }

    def station(state: StationState, sentence: str, advice: str = "") -> Station:
        return Station(StationName.ROBOTS, state, sentence, values, advice)

    name = f"robots.txt of {robots.origin}"
    if not robots.is_respected:
        return station(StationState.NOT_APPLICABLE, "ROBOTS_RESPECT is false: robots.txt is not asked.")
    if facts.is_by_api:
        return station(StationState.NOT_APPLICABLE, "It is read through its source's own interface.")
    advice = "If the site is yours, allow Freshet in its robots.txt; feeds that carry whole texts need no page."
    if not robots.is_stored:
        if robots.refused_ts:
            sentence = f"The {name} did not allow it at its last visit, {ago(robots.refused_ts, now)}."
            return station(StationState.STOPPED, sentence, advice)
        return station(StationState.UNKNOWN, f"The {name} is not stored now; it is asked before the next visit.")
    if robots.must_wait:
        why = f" ({robots.problem})" if robots.problem else ""
        return station(
            StationState.WAITING,
            f"The {name} cannot be read{why}, so nothing is fetched; it is asked again {ahead(robots.until_ts, now)}.",
        )
    rule = f" ({robots.rule})" if robots.rule else ""
    if not robots.is_allowed:
        return station(StationState.STOPPED, f"The {name} does not allow it{rule}.", advice)
    return station(StationState.PASSED, f"The {name} allows it{rule}.")


def pause_station(facts: FetchFacts) -> Station:
    """Return the station that says whether work on it is paused, or was cancelled."""
    if facts.cancelled and not facts.paused:
        scope, run_id = next(iter(facts.cancelled.items()))
        sentence = f"The run {run_id} over {scope} was cancelled; nothing of it is visited before its next run."
        advice = f"python -m scripts.runs resume {run_id} goes on where it stopped."
        return Station(StationName.PAUSE, StationState.WAITING, sentence, {"cancelled": dict(facts.cancelled)}, advice)
    if not facts.paused:
        return Station(StationName.PAUSE, StationState.PASSED, "Nothing that it depends on is paused.")
    scope, since = next(iter(facts.paused.items()))
    sentence = f"The work on {scope} is paused since {since}, and nobody goes on before it is resumed."
    advice = (
        resume_command(scope)
        or "python -m scripts.runs list shows the paused run; python -m scripts.runs resume ID goes on."
    )
    return Station(StationName.PAUSE, StationState.WAITING, sentence, {"paused": dict(facts.paused)}, advice)


def gate_station(gate: GateFacts, now: float) -> Station:
    """Return the station that says whether its domain may be asked now."""
    values: dict[str, object] = {
        "domain": gate.domain,
        "gap_seconds": gate.gap_seconds,
        "closed_until": iso_or_empty(gate.closed_until),
        "reason": gate.reason,
        "last_request_at": iso_or_empty(gate.last_ts),
        "next_free_at": iso_or_empty(gate.next_ts),
        "in_line": gate.in_line,
        "under_way": gate.under_way,
    }
    if gate.closed_until > now:
        sentence = (
            f"{gate.domain} is left alone for {span(gate.closed_until - now)} more: {gate.reason or 'it asked so'}."
        )
        return Station(StationName.RATE_LIMIT, StationState.WAITING, sentence, values)
    gap = f"; at least {gate.gap_seconds:g} s between requests" if gate.gap_seconds else ""
    line = (
        f", {gate.in_line} requests wait in line, the next place is {ahead(gate.next_ts, now)}" if gate.in_line else ""
    )
    return Station(StationName.RATE_LIMIT, StationState.PASSED, f"{gate.domain} may be asked{gap}{line}.", values)


def lease_station(facts: FetchFacts) -> Station:
    """Return the station that says whether a worker has it at this moment."""
    values: dict[str, object] = {"lease_seconds": facts.lease_seconds, "embed_lease_seconds": facts.embed_lease_seconds}
    if facts.lease_seconds:
        sentence = "A worker is visiting it at this moment."
        return Station(StationName.LEASE, StationState.WAITING, sentence, values)
    if facts.embed_lease_seconds:
        return Station(StationName.LEASE, StationState.PASSED, "A worker is embedding it at this moment.", values)
    return Station(StationName.LEASE, StationState.PASSED, "No worker has it at this moment.", values)
