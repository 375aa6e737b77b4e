"""What `freshet why` answers: the stages of the pipeline in order, what happened to a URL at each, and the verdict.

Pure: values and the rule by which the verdict follows from the stations. `core.registry.io.why_trail_reader` reads what
the store knows, the files `why_*.py` beside this one turn it into stations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum

from core.registry import field_parsing
from core.registry.record import iso
from core.urls.secrets import redact
from core.value_class import value_class


class StationState(StrEnum):
    """What happened at a station."""

    PASSED = "passed"
    STOPPED = "stopped"
    """It came to its end here."""
    WAITING = "waiting"
    """It goes on by itself."""
    UNKNOWN = "unknown"
    """The store does not say."""
    NOT_APPLICABLE = "not applicable"


class StationName(StrEnum):
    """The stations, in the order of the pipeline."""

    ADDRESS = "address"
    """The URL is unwrapped, cleaned and given its ids."""
    FEED = "feed"
    """It is a feed itself, and polled."""
    LISTING = "listing"
    """A feed, a page, a sitemap or a person names it."""
    SCOPE = "scope"
    """The sources of domains take it or not."""
    CONNECTION = "connection"
    """The address guard: scheme, port, private addresses."""
    ROBOTS = "robots"
    PAUSE = "pause"
    RATE_LIMIT = "rate limit"
    LEASE = "lease"
    VISIT = "visit"
    """It is fetched and read."""
    IDENTITY = "identity"
    """Redirects, canonical links and equal texts make it another page's alias or duplicate."""
    TEXT = "text"
    INDEX = "index"
    """Its text is cut into chunks and embedded."""
    SEARCH = "search"
    NEXT_CHECK = "next check"
    RUN = "run"


class Outcome(StrEnum):
    """The verdict in one word."""

    FOUND = "found"
    """Search shows it."""
    ELSEWHERE = "elsewhere"
    """It is stored under another URL."""
    WAITING = "waiting"
    MISSING = "missing"
    UNKNOWN = "unknown"
    """No feed, listing or person has ever named it."""
    REFUSED = "refused"
    """Such an address is never taken."""
    FEED = "feed"


@value_class
class Station:
    """One station and what happened there."""

    name: StationName
    state: StationState
    sentence: str
    facts: Mapping[str, object] = field(default_factory=dict)
    """Plain values for programs: texts, numbers, lists; times are ISO 8601."""
    advice: str = ""
    """What a person can do about it."""

    def to_json(self) -> dict[str, object]:
        """Return it as JSON; secrets in texts are hidden."""
        return {
            "name": str(self.name),
            "state": str(self.state),
            "sentence": shown(self.sentence),
            "facts": _redacted(self.facts),
            "advice": shown(self.advice),
        }


@value_class
class NearMiss:
    """A URL that the store knows and that looks much like the one that was asked for."""

    url: str
    difference: str
    """`https instead of http`, for instance."""
    item_id: str = ""
    uid: str = ""

    def to_json(self) -> dict[str, object]:
        return {"url": shown(self.url), "difference": self.difference, "item_id": self.item_id, "uid": self.uid}


@value_class
class Trail:
    """The whole answer to: why is it there, or not?"""

    name: str
    """As it was asked for, secrets hidden."""
    outcome: Outcome
    verdict: str
    """One sentence."""
    stations: tuple[Station, ...]
    advice: str = ""
    stopped_at: StationName | None = None
    """The station that decides: where it stopped or waits; None if it came through."""
    url: str = ""
    """The clean URL or the path."""
    uid: str = ""
    item_id: str = ""
    nearby: tuple[NearMiss, ...] = ()
    asked_ts: float = 0.0

    def station(self, name: StationName) -> Station | None:
        """Return a station by its name; None if it is not part of this trail."""
        return next((one for one in self.stations if one.name is name), None)

    def to_json(self) -> dict[str, object]:
        """Return it as JSON, for `--json` and the API."""
        return {
            "name": shown(self.name),
            "outcome": str(self.outcome),
            "verdict": shown(self.verdict),
            "advice": shown(self.advice),
            "stopped_at": str(self.stopped_at) if self.stopped_at else None,
            "url": shown(self.url),
            "uid": self.uid,
            "item_id": self.item_id,
            "asked_at": iso(self.asked_ts),
            "stations": [station.to_json() for station in self.stations],
            "nearby": [near.to_json() for near in self.nearby],
        }


# ── the verdict ─────────────────────────────────────────────────────────────────────────────────

_REFUSING = (StationName.ADDRESS, StationName.CONNECTION, StationName.ROBOTS)
"""Their rules hold for every URL, from any source."""
_LEADS = {
    Outcome.WAITING: "Not yet there: ",
    Outcome.MISSING: "Not there: ",
    Outcome.UNKNOWN: "Not known: ",
    Outcome.REFUSED: "Not taken: ",
}
# fmt: off
_COMMON_WORDS = frozenset((
    "A", "An", "Another", "At", "By", "Every", "For", "In", "It", "Its", "No", "Nobody", "Nothing", "Only", "Reading",
    "Search", "The", "There", "This", "What",
))
# fmt: on


@value_class
class Conclusion:
    """What follows from the stations."""

    outcome: Outcome
    verdict: str
    advice: str
    station: StationName | None


def conclude(stations: Sequence[Station], *, is_known: bool) -> Conclusion:
    """Return the verdict: it is found, or the station at which it stopped or waits decides.

    `is_known`: something in the store is about it.
    """
    by_name = {station.name: station for station in stations}
    for name, outcome in ((StationName.IDENTITY, Outcome.ELSEWHERE), (StationName.SEARCH, Outcome.FOUND)):
        station = by_name.get(name)
        if station and station.state is StationState.PASSED:
            return Conclusion(outcome, station.sentence, station.advice, None)
    feed = by_name.get(StationName.FEED)
    if feed and feed.state is not StationState.NOT_APPLICABLE:
        return _of_feed(feed, stations)
    if not is_known:
        # A rule that would refuse it says more than that it was never named.
        stations = sorted(stations, key=lambda station: station.name not in _REFUSING)
    for state, outcome in ((StationState.STOPPED, Outcome.MISSING), (StationState.WAITING, Outcome.WAITING)):
        decisive = next((station for station in stations if station.state is state), None)
        if decisive:
            if not is_known:
                outcome = Outcome.REFUSED if decisive.name in _REFUSING else Outcome.UNKNOWN
            sentence = _LEADS[outcome] + continued(decisive.sentence)
            return Conclusion(outcome, sentence, decisive.advice, decisive.name)
    return Conclusion(Outcome.UNKNOWN, "The store does not say where it is.", "", None)


def _of_feed(feed: Station, stations: Sequence[Station]) -> Conclusion:
    """A feed works or not; what keeps it from its next poll is added."""
    if feed.state is StationState.STOPPED:
        return Conclusion(Outcome.FEED, feed.sentence, feed.advice, feed.name)
    obstacle = next((one for one in stations if one.name is not feed.name and _holds(one)), None)
    if obstacle:
        return Conclusion(Outcome.FEED, f"{feed.sentence} {obstacle.sentence}", obstacle.advice, obstacle.name)
    return Conclusion(Outcome.FEED, feed.sentence, feed.advice, feed.name if _holds(feed) else None)


def _holds(station: Station) -> bool:
    return station.state in (StationState.STOPPED, StationState.WAITING)


def shown(text: str) -> str:
    """Return a text as it may be printed and sent: valid, and without secrets."""
    return redact(field_parsing.text(text))


def iso_or_empty(stamp: float) -> str:
    """Return a time for programs; empty for never and not known."""
    return iso(stamp) if 0 < stamp < float("inf") else ""


def continued(sentence: str) -> str:
    """Return a sentence as it goes on behind a colon."""
    first, space, rest = sentence.partition(" ")
    return f"{first.lower()}{space}{rest}" if first in _COMMON_WORDS else sentence


def _redacted(value: object) -> object:
    match value:
        case str():
            return shown(value)
        case Mapping():
            return {str(name): _redacted(one) for name, one in value.items()}
        case list() | tuple():
            return [_redacted(one) for one in value]
        case float() if value in (float("inf"), float("-inf")) or value != value:
            return None
    return value
