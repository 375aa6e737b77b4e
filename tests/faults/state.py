"""What a store holds, in a form that two runs can be compared by, and what must be true of it at any time.

`look` reads the whole store; `dump` masks what no two runs share (times, tokens); `problems` says in sentences what is
wrong. The type and life of every key are those that `core/keys.py` declares, so a new key is checked
as soon as it is declared.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from redis.asyncio import Redis

from core import ids
from core.keys import ANY, DECLARED, Keys
from core.store.connect import Client

HOUR = 3_600
FOREVER = -1
POLITENESS = ("gate", "gate_line", "gate_busy", "gates_waiting", "done")
"""Left out of comparisons: they last minutes and say nothing about the work."""
COUNTERS = ("ingest_stats", "ingest_last_run")
HISTORY = (
    *("run", "run_log", "run_failed", "run_workers", "runs", "runs_of_kind", "runs_open", "runs_cancelled"),
    *("history", "embed_stats"),
)
"""Never compared: which runs there were, how often one had to be continued, and what was seen when."""
STATE_FIELDS = frozenset(
    {"crawl.last_doc_id", "processing.documents_saved", "processing.last_indexed_id", "processing.chunks_total"}
)
"""Of the state of a knowledge base: what depends on the work alone, however often it was interrupted."""
FETCHERS_OWN = (
    *("attempted", "attempted_at", "retry", "failures", "failure", "entry", "canonical_stats", "canonical_last_run"),
    *("article", "article_index", "articles_by_category", "alias", "aliases", "content", "events"),
    *(
        "item",
        "partition",
        "status",
        "refs",
        "due",
        "robots",
        "crashes",
        "embed_due",
        "prune_cursors",
        "canonical_scan",
    ),
)
"""What the canonical fetcher writes; a real ingestor may start it or not, depending on the moment."""
TIME_FIELD = re.compile(r"(^|_)(ts|at|until)$|Ts$|^seconds$")
EVENT_TIME = re.compile(r"^\S+Z ", re.M)
MEMORY_TIME = re.compile(r"(?<=asked_ts\\\":)[\d.]+")
MAP_DIGEST = re.compile(r'(?<="map": ")\w+')
DOWNLOAD_TIME = re.compile(r"(?<=\|)[^|]+Z$")
"""A file of SharePoint that was downloaded again is of another version."""
SUMMARY_TIME = re.compile(r"(?<= )\d{10}(?= )")
VERSION_TIME = re.compile(r'("(?:changed|replaced)_ts": )[\d.]+')
ISO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


# ── families ────────────────────────────────────────────────────────────────────────────────────


WITH_OR_WITHOUT_END = {"as the article or page", "an hour until it is live", "as the chunk"}
"""Declared lives of keys of which some expire and some do not."""


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of key, as `core/keys.py` declares it."""

    name: str
    pattern: re.Pattern[str]
    type: str
    life: str

    @property
    def expires(self) -> bool:
        return not self.stays and self.life not in WITH_OR_WITHOUT_END

    @property
    def stays(self) -> bool:
        return self.life in {"no expiry", "capped"} or self.life.startswith("the last ")


def families(keys: Keys) -> list[Family]:
    """Every key of `core/keys.py`."""
    return [
        Family(key.name, re.compile(".+".join(map(re.escape, key.parts(keys))), re.S), key.type.lower(), key.life)
        for key in DECLARED
        if key.type != ANY
    ]


def family_of(key: str, known: Collection[Family]) -> Family | None:
    """The family with the longest spelling that fits."""
    fitting = [family for family in known if family.pattern.fullmatch(key)]
    return max(fitting, key=lambda family: len(family.pattern.pattern), default=None)


# ── saving and restoring ────────────────────────────────────────────────────────────────────────

Saved = dict[bytes, tuple[bytes, int]]


async def save(raw: Redis) -> Saved:
    """Every key as the server packs it, with its remaining life. `raw` is a client that decodes nothing."""
    names = [key async for key in raw.scan_iter(count=1000)]
    pipe = raw.pipeline(transaction=True)
    for key in names:
        pipe.dump(key)
        pipe.pttl(key)
    answers = await pipe.execute()
    return {
        key: (packed, max(life, 0))
        for key, packed, life in zip(names, answers[::2], answers[1::2], strict=True)
        if packed
    }


async def restore(raw: Redis, saved: Saved) -> None:
    """Make the store what it was, and nothing else."""
    pipe = raw.pipeline(transaction=True)
    pipe.flushdb()
    for key, (packed, life) in saved.items():
        pipe.restore(key, life, packed)
    await pipe.execute()


async def let_leases_end(client: Client, keys: Keys) -> int:
    """As if minutes had passed: what a dead process held is free. Returns how many leases there were."""
    async for key in client.scan_iter(match=keys.run_workers("*")):  # nobody hears of those that died
        await client.delete(key)
    leases = [key async for key in client.scan_iter(match=keys.pattern(keys.lease), count=1000)]
    polite = [key async for key in client.scan_iter(match=keys.all_pattern[:-1] + "fetch:*", count=1000)]
    gates = [key for key in polite if not key.startswith(keys.robots("")) and key != keys.paces]
    if leases or gates:
        await client.delete(*leases, *gates)
    return len(leases)


# ── looking ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Held:
    """What one key holds: a set, a mapping (hash, zset with scores), a list, or text."""

    type: str
    life_ms: int
    content: Any

    @property
    def hours(self) -> int:
        """Remaining life, rounded up; -1 for ever."""
        return FOREVER if self.life_ms < 0 else math.ceil(self.life_ms / 1000 / HOUR)


@dataclass(frozen=True, slots=True)
class Picture:
    """A whole store at one moment. Look only while nobody writes, or two keys may be of different moments."""

    keys: Keys
    now: float
    held: Mapping[str, Held]
    families: list[Family] = field(default_factory=list)

    def __contains__(self, key: str) -> bool:
        return key in self.held

    def content(self, key: str) -> Any:
        """What the key holds; an empty mapping when there is no such key."""
        return self.held[key].content if key in self.held else {}

    def named(self, start: str) -> Iterator[tuple[str, str, Held]]:
        """Key, its rest and content, of keys that start so."""
        return ((key, key.removeprefix(start), held) for key, held in self.held.items() if key.startswith(start))


async def look(client: Client, keys: Keys) -> Picture:
    """Everything under the prefix of `keys`."""
    seconds, micros = await client.time()
    names = sorted([key async for key in client.scan_iter(match=keys.all_pattern, count=1000)])
    pipe = client.pipeline(transaction=True)
    for key in names:
        pipe.type(key)
        pipe.pttl(key)
    answers = await pipe.execute()
    there = [row for row in zip(names, answers[::2], answers[1::2], strict=True) if row[1] != "none" and row[2] != -2]
    for key, kind, _ in there:
        _ask_content(pipe, key, kind)
    contents = await pipe.execute() if there else []
    held = {
        key: Held(kind, life, _shaped(kind, content))
        for (key, kind, life), content in zip(there, contents, strict=True)
    }
    return Picture(keys, float(seconds) + float(micros) / 1e6, held, families(keys))


def _ask_content(pipe: Any, key: str, kind: str) -> None:
    match kind:
        case "set":
            pipe.smembers(key)
        case "zset":
            pipe.zrange(key, 0, -1, withscores=True)
        case "hash":
            pipe.hgetall(key)
        case "list":
            pipe.lrange(key, 0, -1)
        case "stream":
            pipe.xrange(key)
        case _:
            pipe.get(key)


def _shaped(kind: str, content: Any) -> Any:
    if kind == "stream":
        return [fields for _, fields in content]
    return {member: float(score) for member, score in content} if kind == "zset" else content


# ── the dump ────────────────────────────────────────────────────────────────────────────────────

Dump = dict[str, tuple[str, int, Any]]


def dump(picture: Picture, *, without: Collection[str] = POLITENESS) -> Dump:
    """Key → type, remaining life in hours (rounded up, -1 for ever), content with times masked.

    `without` names families (methods of `Keys`) that are left out.
    """
    found: Dump = {}
    for key, held in picture.held.items():
        family = family_of(key, picture.families)
        name = family.name if family else ""
        if name not in without and name not in HISTORY:
            found[key] = (held.type, held.hours, _of_work(name, _masked(held, picture.now)))
    return found


def _of_work(family: str, content: Any) -> Any:
    """What a key says about the work, without the history of runs."""
    if family == "events":
        return [event for event in content if event["type"] != "run.finished"]
    if family == "feed_summaries":
        return {feed_id: SUMMARY_TIME.sub("…", value) for feed_id, value in content.items()}
    if family == "kb_state":
        return {name: value for name, value in content.items() if name in STATE_FIELDS}
    return content


def only_families_of(expected: Dump, keys: Keys, without: Collection[str]) -> Dump:
    """The same dump as if it had been made without these families."""
    known = families(keys)
    return {key: value for key, value in expected.items() if getattr(family_of(key, known), "name", "") not in without}


def difference(expected: Dump, got: Dump) -> str:
    """What differs, key by key and field by field; empty when nothing does."""
    return "\n".join(_differences(expected, got))


def _differences(expected: Dump, got: Dump) -> Iterator[str]:
    for key in sorted(expected.keys() | got.keys()):
        if key not in got:
            yield f"{key}: missing"
        elif key not in expected:
            yield f"{key}: should not be there: {got[key]}"
        elif expected[key] != got[key]:
            yield from _inside(key, expected[key], got[key])


def _inside(key: str, expected: tuple[str, int, Any], got: tuple[str, int, Any]) -> Iterator[str]:
    if expected[:2] != got[:2]:
        yield f"{key}: type and hours {expected[:2]} became {got[:2]}"
    before, after = expected[2], got[2]
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            if before.get(name) != after.get(name):
                yield f"{key} {name}: {before.get(name)!r} became {after.get(name)!r}"
    elif before != after:
        yield f"{key}: {before!r} became {after!r}"


def _masked(held: Held, now: float) -> Any:
    if held.type == "zset":
        return {member: moment(score, now) for member, score in held.content.items()}
    if held.type == "hash":
        return {name: _masked_field(name, value, now) for name, value in held.content.items()}
    if held.type == "list":  # versions of a text, as JSON
        return [VERSION_TIME.sub(r"\1…", value) for value in held.content]
    return sorted(held.content) if held.type == "set" else held.content


def _masked_field(name: str, value: str, now: float) -> str:
    if name == "events":
        return EVENT_TIME.sub("", value)
    if name == "seconds":
        return "…"
    if name == "memory":  # of a source, as JSON
        return MAP_DIGEST.sub("…", MEMORY_TIME.sub("…", value))
    if name in ("listedVersion", "visitedVersion"):
        return DOWNLOAD_TIME.sub("…", value)
    if ISO_TIME.fullmatch(value):
        return moment(datetime.fromisoformat(value).timestamp(), now)
    return moment(float(value), now) if TIME_FIELD.search(name) and _is_number(value) else value


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def moment(ts: float, now: float) -> str:
    """A time as two runs can share it: never, later, just now; what is long past or no time at all, exactly."""
    if math.isinf(ts):
        return "never"
    if ts > now + 1:  # some times are rounded to the next second
        return "later"
    return "just now" if ts > now - HOUR else f"{ts:g}"


# ── what must be true ───────────────────────────────────────────────────────────────────────────


def problems(picture: Picture, *, is_settled: bool, by_hand: Collection[str] = ()) -> list[str]:
    """Everything that is wrong with the ingestor's keys, in sentences.

    Args:
        is_settled: a cycle came to its end since the last fault: then every feed has its state and no lease is left.
        by_hand: categories whose link set somebody filled with SADD; they get their stamps at the end of a cycle.
    """
    excused = () if is_settled else by_hand
    found = [*_of_keys(picture, excused), *_of_links(picture, excused), *_of_states(picture), *_of_counters(picture)]
    found += _of_registry(picture)
    return found + list(_unsettled(picture)) if is_settled else found


def _of_keys(picture: Picture, excused: Collection[str]) -> Iterator[str]:
    """Every key is declared, of its declared type, and has its declared life."""
    hand_made = {picture.keys.category_links(category) for category in excused}
    for key, held in picture.held.items():
        if key.startswith(picture.keys.quarantined("")):
            continue  # of any type, whatever was damaged
        family = family_of(key, picture.families)
        if family is None:
            yield f"{key}: not declared in core/keys.py"
        elif held.type != family.type:
            yield f"{key}: is a {held.type}, declared as {family.type}"
        elif family.expires and held.life_ms < 0 and key not in hand_made:
            yield f"{key}: has no life, declared with {family.life}"
        elif family.stays and held.life_ms >= 0:
            yield f"{key}: ends in {held.life_ms} ms, declared with {family.life}"


def _of_links(picture: Picture, excused: Collection[str]) -> Iterator[str]:
    """Every link has a stamp, every stamp a link."""
    keys = picture.keys
    categories = {
        rest for start in (keys.category_links(""), keys.category_links_seen("")) for _, rest, _ in picture.named(start)
    }
    for category in sorted(categories - set(excused)):
        members = set(picture.content(keys.category_links(category)))
        stamps = set(picture.content(keys.category_links_seen(category)))
        for link in sorted(members ^ stamps):
            yield f"{category}: {link} has {'no stamp' if link in members else 'a stamp and is no link'}"


def _of_states(picture: Picture) -> Iterator[str]:
    """State, schedule, links of the body and links of the category were written together."""
    keys = picture.keys
    for key, fid, held in picture.named(keys.feed("")):
        yield from _of_state(picture, key, fid, held.content)
    for key, fid, _ in picture.named(keys.feed_links("")):
        if keys.feed(fid) not in picture:
            yield f"{key}: links of a feed without state"


def _of_state(picture: Picture, key: str, fid: str, feed: Mapping[str, str]) -> Iterator[str]:
    keys = picture.keys
    due = picture.content(keys.feeds_due).get(fid)
    if due is None:
        yield f"{key}: {feed.get('url')} has a state and is not in the due set: nobody will ever strike it off"
    # Earlier is fine: a person writes 0 to have it polled at once.
    elif due > float(feed.get("next_poll_ts") or 0) + 0.01:
        yield f"{key}: due at {due}, its state says {feed.get('next_poll_ts')}"
    links = set(picture.content(keys.feed_links(fid)))
    if feed.get("body_hash") and not links and int(feed["entries"]) > int(feed["rejected"]):
        yield f"{key}: {feed['url']} has validators, and its links are not there"
    if float(feed.get("renewed_ts") or 0) > picture.now - HOUR:
        for category in feed["categories"].split(","):
            for link in sorted(links - set(picture.content(keys.category_links(category)))):
                yield f"{key}: {link} was seen and is not in {category}"


def _of_counters(picture: Picture) -> Iterator[str]:
    """Every link and every poll is counted exactly once."""
    keys = picture.keys
    totals, last = picture.content(keys.ingest_stats), picture.content(keys.ingest_last_run)
    for name, stored in (("totals", totals), ("last run", last)):
        count = Counter({field: float(value) for field, value in stored.items()})
        if count["links_found"] != count["links_new"] + count["links_known"] + count["links_rejected"]:
            yield f"counters, {name}: not every link is counted exactly once: {stored}"
        if count["polled"] != count["changed"] + count["unchanged"] + count["errors"] + count["gone"]:
            yield f"counters, {name}: not every poll is counted exactly once: {stored}"
    for name, value in totals.items():
        if float(last.get(name, 0)) > float(value):
            yield f"counters: {name} of the last run is above its total"


def _unsettled(picture: Picture) -> Iterator[str]:
    """What may be missing only until a cycle has ended."""
    keys = picture.keys
    subscribed: dict[str, set[str]] = {}
    for _, category, held in picture.named(keys.feeds("")):
        for url in held.content:
            subscribed.setdefault(url, set()).add(category)
    for url, categories in sorted(subscribed.items()):
        fid = ids.feed_id(url)
        if fid not in picture.content(keys.feeds_due):
            yield f"{url}: not in the due set"
        stored = picture.content(keys.feed(fid)).get("categories")
        if stored is None:
            yield f"{url}: has no state"
        elif set(stored.split(",")) != categories:
            yield f"{url}: is in {sorted(categories)}, its state says {stored}"
    for start, what in ((keys.lease(""), "a lease"), (keys.crashes("feed_"), "a count of deaths")):
        yield from (f"{key}: {what} after a good end" for key, _, _ in picture.named(start))


# ── the registry ────────────────────────────────────────────────────────────────────────────────


def _of_registry(picture: Picture) -> Iterator[str]:
    """Every record is found where it is looked for, and nothing is found that has no record."""
    keys = picture.keys
    start = keys.item("")
    records = {item_id: held.content for _, item_id, held in picture.named(start)}
    items = {item_id: record for item_id, record in records.items() if not record.get("parentPageId")}
    yield from _of_memberships(picture, items, records)
    for item_id, record in items.items():
        yield from (f"{start}{item_id}: {told}" for told in _of_item(picture, item_id, record))
    for item_id, record in records.items():
        page = record.get("parentPageId")
        if page and item_id not in picture.content(keys.images(page)):
            yield f"{start}{item_id}: an image that its page does not know"
        if page:
            yield from (f"{start}{item_id}: {told}" for told in _of_sets(picture, item_id, record))
    for family in (keys.document, keys.links, keys.images, keys.snapshot):
        for key, item_id, _ in picture.named(family("")):
            if item_id not in items:
                yield f"{key}: belongs to no item"


def _of_memberships(
    picture: Picture, items: Mapping[str, Mapping[str, str]], records: Mapping[str, Mapping[str, str]]
) -> Iterator[str]:
    """Members of the registry's sets have a record that says so; `records` are items and their images."""
    keys = picture.keys
    for family, name in ((keys.status, "status"), (keys.partition, "PartitionKey")):
        for key, value, held in picture.named(family("")):
            for item_id in held.content:
                if records.get(item_id, {}).get(name) != value:
                    yield f"{key}: has {item_id}, whose {name} is {records.get(item_id, {}).get(name)}"
    for sid in _sources(picture):
        refs = set(picture.content(keys.refs(sid)))
        for item_id in sorted(refs):
            if sid not in items.get(item_id, {}).get("sources", "").split(","):
                yield f"{keys.refs(sid)}: has {item_id}, whose record does not name the source"
        for family in (keys.due, keys.seen, keys.listed):
            for item_id in sorted(set(picture.content(family(sid))) - refs):
                yield f"{family(sid)}: has {item_id}, which is not of this source"


def _sources(picture: Picture) -> list[str]:
    return sorted({"rss", "urls", *picture.content(picture.keys.sources)})


def _of_item(picture: Picture, item_id: str, record: Mapping[str, str]) -> Iterator[str]:
    keys = picture.keys
    yield from _of_sets(picture, item_id, record)
    is_parked = not record["nextCrawlAt"]
    for sid in filter(None, record["sources"].split(",")):
        if item_id not in picture.content(keys.refs(sid)):
            yield f"names the source {sid}, which does not list it"
        if (item_id in picture.content(keys.due(sid))) is is_parked:
            yield f"its next check is {record['nextCrawlAt'] or 'never'}, and the due set of {sid} says otherwise"
    yield from _of_text(picture, item_id, record)


def _of_sets(picture: Picture, item_id: str, record: Mapping[str, str]) -> Iterator[str]:
    keys, status = picture.keys, record["status"]
    if item_id not in picture.content(keys.status(status)):
        yield f"not in the set of its status {status}"
    if item_id not in picture.content(keys.partition(record["PartitionKey"])):
        yield f"not in its partition {record['PartitionKey']}"


def _of_text(picture: Picture, item_id: str, record: Mapping[str, str]) -> Iterator[str]:
    """There is a text exactly where the status says so; after an error what was there may stay."""
    keys, status = picture.keys, record["status"]
    is_stored = status in ("Crawled", "Indexed") and not record["aliasOf"]
    if record["articleUid"]:
        if is_stored and picture.content(keys.article(record["articleUid"])).get("status") != "success":
            yield f"{status}, and its article {record['articleUid']} is not there"
        return
    has_text = keys.document(item_id) in picture
    if is_stored and not has_text:
        yield f"{status}, and its text is not there"
    if has_text and (status in ("Pending", "Gone") or record["aliasOf"]):
        yield f"{status}{', an alias' if record['aliasOf'] else ''}, and has a text"
    if has_text and picture.content(keys.document(item_id))["content_hash"] != record["contentHash"]:
        yield "its text is of another visit than its record"
    images = picture.content(keys.images(item_id))
    if images and not has_text:
        yield "has images and no text"
    for image in images:
        if keys.item(image) not in picture:
            yield f"its image {image} has no record"


def unsettled_items(picture: Picture) -> list[str]:
    """What may be there only while visits are under way, or until the next one after a fault."""
    keys = picture.keys
    found = [f"{key}: a lease" for key, _, _ in picture.named(keys.lease(""))]
    found += [f"{key}: a count of deaths" for key, _, _ in picture.named(keys.crashes(""))]
    locked = [key for key, _, held in picture.named(keys.item("")) if held.content["lockedUntil"]]
    return found + [f"{key}: still locked" for key in locked]
