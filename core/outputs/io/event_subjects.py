"""Read what events are about: categories, domains, title and URL; and whether a saved search finds it.

A whole batch is read in two or three round trips. Only what is still in the store is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from core.keys import Keys
from core.outputs.webhook_filter import EventSubject
from core.registry import field_parsing
from core.registry.record import ARTICLES_SOURCE, listing_sources
from core.search.io import replica_stemming
from core.store.connect import Client
from core.store.event_stream import StoredEvent
from core.store.pipeline import read_many
from core.value_class import value_class

RECORD_FIELDS = ("displaySource", "sources", "articleUid", "articleCategories")
TEXT_FIELDS = ("url", "title", "abstract", "author", "image", "language", "published_ts", "categories")
SHOWN_FACTS = ("url", "title", "abstract", "author", "image", "language")
ARTICLE_TEXT, PAGE_TEXT = "clean_text", "markdown"


@value_class
class LocatedSubject:
    subject: EventSubject
    text_key: str = ""
    text_field: str = ""


class EventSubjects:
    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def read(self, events: Sequence[StoredEvent]) -> list[LocatedSubject]:
        item_ids = [event.fields.get("id", "") if event.type != "run.finished" else "" for event in events]
        commands = [("HMGET", self._keys.item(name), *RECORD_FIELDS) for name in item_ids if name]
        rows = iter(await read_many(self._client, commands))
        records = [dict(zip(RECORD_FIELDS, next(rows), strict=True)) if name else {} for name in item_ids]
        places = [
            self._place(event, record.get("articleUid") or "") for event, record in zip(events, records, strict=True)
        ]
        rows = iter(await read_many(self._client, [("HMGET", key, *TEXT_FIELDS) for key, _ in places if key]))
        texts = [dict(zip(TEXT_FIELDS, next(rows), strict=True)) if key else {} for key, _ in places]
        told = zip(events, records, texts, places, strict=True)
        return [LocatedSubject(_subject(event, record, text), *place) for event, record, text, place in told]

    def _place(self, event: StoredEvent, article_uid: str) -> tuple[str, str]:
        """Return the key and the field of the text that an event is about."""
        uid, item_id = event.fields.get("uid") or article_uid, event.fields.get("id", "")
        if uid:
            return self._keys.article(uid), ARTICLE_TEXT
        if item_id and event.type != "run.finished":
            return self._keys.document(item_id), PAGE_TEXT
        return "", ""

    async def texts(self, located: Sequence[LocatedSubject]) -> list[SearchableText]:
        """Return the texts of these subjects, as search indexes them."""
        commands = [("HMGET", one.text_key, "title", one.text_field, "language") for one in located if one.text_key]
        rows = iter(await read_many(self._client, commands))
        return [SearchableText.of(*next(rows)) if one.text_key else SearchableText("", "") for one in located]


def _subject(event: StoredEvent, record: Mapping[str, str | None], text: Mapping[str, str | None]) -> EventSubject:
    has_record = any(value is not None for value in record.values())
    sources = listing_sources(record["sources"]) if has_record else ()
    categories = {event.fields.get("category", ""), *_split(record.get("articleCategories"))}
    categories.update(_split(text.get("categories")))
    domains = {event.fields.get("domain", ""), *(sid.partition(".")[0] for sid in sources if "." in sid)}
    facts: dict[str, object] = {
        name: value for name in SHOWN_FACTS if (value := field_parsing.text(text.get(name) or ""))
    }
    if url := field_parsing.text(record.get("displaySource") or ""):
        facts.setdefault("url", url)
    if published_ts := field_parsing.timestamp(text.get("published_ts")):
        facts["published_ts"] = published_ts
    facts |= {"categories": sorted(categories - {""}), "domains": sorted(domains - {""})}
    # The record of an article that has expired no longer names its categories.
    is_known = has_record and (ARTICLES_SOURCE not in sources or len(categories - {""}) > 0)
    return EventSubject(frozenset(categories - {""}), frozenset(domains - {""}), is_known, facts)


def _split(names: str | None) -> list[str]:
    return (names or "").split(",")


# ── saved searches ──


@value_class
class SearchableText:
    """A text as terms: lower case, stemmed in its language, without accents, as search indexes it."""

    terms: str
    """With spaces between, before and after."""
    language: str

    @classmethod
    def of(cls, title: str | None, text: str | None, language: str | None) -> SearchableText:
        stemmed = replica_stemming.terms(f"{title or ''}\n{text or ''}", language or "")
        return cls(f" {stemmed} ", language or "")

    def has_all(self, query: str) -> bool:
        """Return whether all words of the query are here, and its quoted phrases word for word."""
        wanted = replica_stemming.query_terms(query, [self.language])
        is_there = all(any(f" {term} " in self.terms for term in variants) for variants in wanted.words)
        phrases = (any(f" {' '.join(words)} " in self.terms for words in variants) for variants in wanted.phrases)
        return bool(wanted.words) and is_there and all(phrases)
