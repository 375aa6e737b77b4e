"""`freshet why`, stations after a visit: aliases and duplicates, the stored text, its chunks, search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from shlex import quote

from core.registry import field_parsing
from core.registry.record import Item, Status
from core.registry.time_formatting import ago, span
from core.registry.why_verdict import Station, StationName, StationState, continued, iso_or_empty
from core.registry.why_visit import ARTICLE_ENDED
from core.value_class import value_class


@value_class
class AliasFacts:
    """Another URL or article that the same page has."""

    target: str
    """The uid or item id."""
    url: str = ""
    has_text: bool = False
    why: str = ""
    """`redirect`, `canonical link`, `the same text`; empty if that is not known."""


@value_class
class ContentFacts:
    name: str
    record: Mapping[str, str] = field(default_factory=dict)
    item: Item | None = None
    article: Mapping[str, str] = field(default_factory=dict)
    """`status url title categories language text_len fetched_ts duplicate_of final_url canonical_url text_source`."""
    article_seconds_left: float = 0.0
    """Until the article expires; 0 if there is none."""
    has_document: bool = False
    alias: AliasFacts | None = None
    aliases: Sequence[str] = ()
    """Other URLs of the same page."""
    duplicate_url: str = ""
    """The article that had the same text first."""
    parent_url: str = ""
    """The page of an image."""
    is_live: bool = False
    """Search may show it."""
    has_live_chunks: bool = False
    chunks: int = 0
    vectors: int = 0
    is_unspoken: bool = False
    """No chunk is meant to have a vector: no model speaks the language of the page."""
    space: str = ""
    waiting_since: float = 0.0
    """In `embed:due`; 0 if not."""
    embedder_away: str = ""
    embedder: str = "local"
    queue_length: int = 0
    held: str = ""
    """What the loss guard of its source says, if that stopped removals."""

    @property
    def has_text(self) -> bool:
        """Whether there is a text of it that is not hidden."""
        return self.article.get("status") == "success" or (self.has_document and not self.article)


def content_stations(facts: ContentFacts, now: float) -> Sequence[Station]:
    return identity_station(facts), text_station(facts, now), index_station(facts, now), search_station(facts)


def identity_station(facts: ContentFacts) -> Station:
    """Return the station that says whether it is another page's alias, image or duplicate.

    Passed means: it is found under another URL.
    """
    chain = field_parsing.sequence(facts.record.get("httpRedirectChain"))
    values: dict[str, object] = {
        "aliases": list(facts.aliases),
        "redirects": [str(url) for url in chain],
        "canonical_url": facts.record.get("httpCanonicalUrl", ""),
        "duplicate_of": facts.article.get("duplicate_of", ""),
        "duplicate_url": facts.duplicate_url,
    }

    def station(state: StationState, sentence: str, advice: str = "") -> Station:
        return Station(StationName.IDENTITY, state, sentence, values, advice)

    if facts.parent_url:
        return station(StationState.PASSED, f"It is an image of {facts.parent_url}, and is found with that page.")
    alias = facts.alias
    if alias is not None:
        values["alias_of"] = {"id": alias.target, "url": alias.url, "why": alias.why}
        why = f", by {alias.why}" if alias.why else ""
        if alias.has_text:
            return station(
                StationState.PASSED,
                f"It is the same page as {alias.url or alias.target}{why}, and stored under that URL.",
            )
        return station(
            StationState.STOPPED,
            f"It is the same page as {alias.url or alias.target}{why}, of which no text is stored any more.",
            f"python -m scripts.reindex --force {quote(facts.name)} reads it again.",
        )
    if facts.duplicate_url or values["duplicate_of"]:
        first = facts.duplicate_url or values["duplicate_of"]
        return station(
            StationState.NOT_APPLICABLE, f"{first} had the same text first; search shows both as one result."
        )
    return station(StationState.NOT_APPLICABLE, "It is a page of its own.")


def text_station(facts: ContentFacts, now: float) -> Station:
    """Return the station that says whether its text is stored, and for how long."""
    article, record = facts.article, facts.record
    values: dict[str, object] = {
        "article_status": article.get("status", ""),
        "title": article.get("title", ""),
        "categories": [name for name in article.get("categories", "").split(",") if name],
        "language": article.get("language", "") or record.get("language", ""),
        "text_source": article.get("text_source", ""),
        "fetched_at": iso_or_empty(field_parsing.timestamp(article.get("fetched_ts"))),
        "expires_in_seconds": round(facts.article_seconds_left) or None,
        "has_document": facts.has_document,
    }

    def station(state: StationState, sentence: str, advice: str = "") -> Station:
        return Station(StationName.TEXT, state, sentence, values, advice)

    if article.get("status") == "success":
        return station(StationState.PASSED, _article_sentence(facts, now))
    if article:
        why = record.get("errorMessage", "").rstrip(".") or "its page is missing"
        sentence = f"Its article is hidden until the page is back or gone for good: {why}."
        return station(StationState.STOPPED, sentence)
    if facts.has_document:
        return station(StationState.PASSED, "Its text is stored as long as a source lists it.")
    item = facts.item
    if item is not None and item.article_uid and not facts.alias and _has_expired(item, record):
        sentence = "Its article expired: no feed had listed it for as long as articles are kept."
        advice = f"python -m scripts.reindex --force {quote(facts.name)} brings it back (see ARTICLE_TTL_SECONDS)."
        return station(StationState.STOPPED, sentence, advice)
    return station(StationState.NOT_APPLICABLE, "No text of it is stored.")


def _has_expired(item: Item, record: Mapping[str, str]) -> bool:
    """Return whether the end of its TTL, and not a missing page, took the article away."""
    is_ended = item.status is Status.GONE and record.get("errorMessage") == ARTICLE_ENDED
    return is_ended or item.status in (Status.CRAWLED, Status.INDEXED)


def _article_sentence(facts: ContentFacts, now: float) -> str:
    article = facts.article
    size = field_parsing.integer(article.get("text_len"))
    fetched = ago(field_parsing.timestamp(article.get("fetched_ts")), now)
    source = " from the feed itself" if article.get("text_source") == "feed" else ""
    left = f"; it expires in {span(facts.article_seconds_left)} unless a feed lists it again"
    places = article.get("categories", "").replace(",", ", ")
    return f"An article of {size:,} characters{source} in {places or 'no category'}, stored {fetched}{left}."


def index_station(facts: ContentFacts, now: float) -> Station:
    """Return the station that says whether its text is cut into chunks and embedded."""
    values: dict[str, object] = {
        "chunks": facts.chunks,
        "vectors": facts.vectors,
        "space": facts.space,
        "waiting_since": iso_or_empty(facts.waiting_since),
        "embedder": facts.embedder,
        "embedder_away": facts.embedder_away,
        "queue_length": facts.queue_length,
    }

    def station(state: StationState, sentence: str, advice: str = "") -> Station:
        return Station(StationName.INDEX, state, sentence, values, advice)

    if not facts.is_live:
        return station(StationState.NOT_APPLICABLE, "There is no text to index.")
    if facts.waiting_since or not facts.has_live_chunks:
        since = f" for {span(now - facts.waiting_since)}" if facts.waiting_since else ""
        why = f": {facts.embedder_away.rstrip('.')}" if facts.embedder_away else ""
        length = f" ({facts.queue_length:,} in the queue)"
        return station(StationState.WAITING, f"It waits to be embedded{since}{length}{why}.")
    if facts.embedder == "none" or not facts.space:
        return station(StationState.PASSED, f"{facts.chunks:,} chunks, without vectors: this store has none.")
    if facts.is_unspoken:
        return station(StationState.PASSED, f"{facts.chunks:,} chunks, without vectors: no model speaks its language.")
    if facts.vectors < facts.chunks:
        sentence = f"{facts.vectors:,} of {facts.chunks:,} chunks have a vector of {facts.space}."
        return station(StationState.WAITING, sentence, "python -m scripts.doctor says why; --fix makes them due.")
    return station(StationState.PASSED, f"{facts.chunks:,} chunks with vectors of {facts.space}.")


def search_station(facts: ContentFacts) -> Station:
    """Return the station that says whether search shows it. Passed means that it does."""
    if not facts.is_live:
        return Station(StationName.SEARCH, StationState.NOT_APPLICABLE, "Search has no text of it.")
    has_vectors = facts.has_live_chunks and facts.vectors and not facts.waiting_since
    if has_vectors:
        sentence = "Search finds it, by words and by meaning."
    elif facts.embedder == "none" or (facts.has_live_chunks and not facts.waiting_since):
        sentence = "Search finds it, by words."
    else:
        away = f" ({facts.embedder_away.rstrip('.')})" if facts.embedder_away else ""
        sentence = f"Search finds it by words; by meaning once it is embedded{away}."
    values: dict[str, object] = {"by_words": True, "by_meaning": bool(has_vectors)}
    if facts.duplicate_url:
        sentence = f"{sentence.rstrip('.')}, as one result with {facts.duplicate_url}, which had the same text first."
    if facts.item is not None and facts.item.status in (Status.ERROR, Status.OUT_OF_SCOPE):
        why = continued(facts.record.get("errorMessage", "")).rstrip(".")
        sentence = f"{sentence.rstrip('.')}, though its last check failed: {why}."
        return Station(StationName.SEARCH, StationState.PASSED, sentence, values, facts.held)
    return Station(StationName.SEARCH, StationState.PASSED, sentence, values)
