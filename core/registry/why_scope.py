"""`freshet why`, the station that tells which sources of domains take a URL, or the rule that excludes it."""

from __future__ import annotations

from collections.abc import Mapping

from core.registry.why_listing import ListingFacts, SourceListing
from core.registry.why_verdict import Station, StationName, StationState, iso_or_empty
from core.urls.scope import EXCLUDED, NO_DOCUMENT, NOT_EMBEDDED, NOT_INCLUDED, OUTSIDE, TOO_DEEP, Judgement


def scope_station(listing: ListingFacts, *, is_named_elsewhere: bool) -> Station:
    """Return the station that says which sources of domains take it, and which rule excludes it from the others.

    `is_named_elsewhere`: a feed or a person names it, so that no scope decides about it.
    """
    linking = {page.sid for page in listing.pages}
    near = [source for source in listing.sources if source.judgement or source.has_it or source.refusal]
    near.sort(key=lambda source: (source.distance, source.sid not in linking))
    facts: dict[str, object] = {"sources": [_source_facts(source) for source in near]}
    facts["problems"] = {source.sid: source.problem for source in listing.sources if source.problem}
    if not near:
        sentence = "No source of a domain reaches as far as this address."
        return Station(StationName.SCOPE, StationState.NOT_APPLICABLE, sentence, facts)
    taking = [source for source in near if source.has_it]
    if taking:
        names = ", ".join(source.sid for source in taking)
        return Station(StationName.SCOPE, StationState.PASSED, f"It is an item of {names}.", facts)
    shut = [(source, why) for source in near if (why := _why_shut(source))]
    if len(shut) < len(near):
        waits = next(source for source in near if not _why_shut(source))
        return _not_registered(waits, listing, facts)
    source, why = shut[0]
    state = StationState.NOT_APPLICABLE if is_named_elsewhere else StationState.STOPPED
    return Station(StationName.SCOPE, state, f"{source.sid} does not take it: {why}.", facts, _scope_advice(source))


def _not_registered(source: SourceListing, listing: ListingFacts, facts: Mapping[str, object]) -> Station:
    sentence = f"{source.sid} covers it, but it is not an item of it yet."
    is_linked = any(page.sid == source.sid for page in listing.pages)
    state = StationState.WAITING if is_linked else StationState.NOT_APPLICABLE
    advice = f"The next crawl registers it: python -m scripts.domain crawl {source.domain}" if is_linked else ""
    return Station(StationName.SCOPE, state, sentence, facts, advice)


def _why_shut(source: SourceListing) -> str:
    """Return why a source that does not list it will not, as the end of a sentence; empty if it may."""
    judgement = source.judgement
    if judgement and judgement.reason:
        return _REASONS.get(judgement.reason, f"it looks like a spider trap, {judgement.reason}").format(
            rule=judgement.rule
        )
    if source.refusal:
        return f"when it was last found it was refused, {source.refusal}"
    return source.full


_REASONS = {
    **dict.fromkeys(OUTSIDE.values(), "it lies outside ({rule})"),
    EXCLUDED: "a pattern leaves it out ({rule})",
    NOT_INCLUDED: "no pattern takes it in ({rule})",
    TOO_DEEP: "it lies too deep ({rule})",
    NOT_EMBEDDED: "its type is not one of those that are embedded ({rule})",
    NO_DOCUMENT: "it is not a document ({rule})",
    "not allowed": "{rule}",
}


def _scope_advice(source: SourceListing) -> str:
    reason, rule = (source.judgement.reason, source.judgement.rule) if source.judgement else ("", "")
    if reason in {*OUTSIDE.values(), EXCLUDED, NOT_INCLUDED, TOO_DEEP}:
        return f"Change {rule.partition(' ')[0]} of {source.sid} and add its domain.json again."
    if reason == NOT_EMBEDDED:
        return "Keep its text there as one of these types too, for example as a .docx or a .pdf."
    if reason:
        return "What no crawl takes can still come in by a feed; images are found with their pages."
    if source.full:
        return f"Raise max_pages of {source.sid} and add its domain.json again."
    return ""


def _source_facts(source: SourceListing) -> dict[str, object]:
    judgement = source.judgement or Judgement()
    return {
        "source": source.sid,
        "domain": source.domain,
        "location": source.location,
        "is_listed": source.has_it,
        "depth": source.depth,
        "is_root": source.is_root,
        "in_sitemap": source.is_in_sitemap,
        "seen_at": iso_or_empty(source.seen_ts),
        "reason": judgement.reason,
        "rule": judgement.rule,
        "refused": source.refusal,
        "full": source.full,
        "loss_guard": source.held,
        "counts_as_lost": source.is_lost,
        "listed_at": iso_or_empty(source.listed_ts),
        "next_listing_at": iso_or_empty(source.next_listing_ts),
    }
