"""Visit one link: lease, fetch, read, decide, commit. The only place where these meet.

What happened comes back as an outcome; whatever stops us in between gives the link back as it was.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from core import canonical, http_headers, ids, registry, urls
from core.canonical import Outcome
from core.errors import FailCode, FailDetail
from core.models import Deferred, Document, Failed, Fetched, Rejected, Request
from core.net.room import Room
from core.parsing.tasks import PageResult, PageTask
from core.secrets import without_credentials
from core.stores.articles import Before, Link
from core.stores.clock import ServerClock
from core.stores.commit import Lease, Word
from core.trackers import matcher
from workers.desk import Desk

log = logging.getLogger("canon")
T = TypeVar("T")

MAX_WAIT_SECONDS = 60.0
"""Longest place in line at a domain's gate; beyond it the link is left for the next run."""
MOST_DEATHS = 3
TWIN_PATIENCE = 20
TWIN_PAUSE_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Unreached:
    """A host that did not answer; who is to blame is known at the end of the run."""

    link: Link
    lease: Lease
    failed: Failed
    tries: int


@dataclass(frozen=True, slots=True)
class Held:
    """Another run has this link, or the same page is being visited under another name."""


@dataclass(frozen=True, slots=True)
class Page:
    """A link whose page was fetched and read."""

    link: Link
    answer: Fetched
    document: Document
    entry: Mapping[str, str]
    """What a feed says about it."""

    def visited(self, normalised: str) -> registry.PageVisit:
        """What the registry wants to know of it."""
        answer, document = self.answer, self.document
        return registry.PageVisit(
            normalised=normalised,
            fetched_url=answer.final_url,
            http_status=answer.status,
            etag=answer.header("etag"),
            last_modified=answer.header("last-modified"),
            content_length=document.raw_len,
            redirects=[hop.url for hop in answer.hops],
            canonical_url=document.canonical_url,
            content_hash=document.content_hash,
            language=document.language,
            mime_type=http_headers.media_type(answer.header("content-type")),
            extractor_version=document.extractor_version,
        )

    def fields(self, now: float) -> dict[str, Word]:
        """Every field of the article hash, always (trap T12)."""
        link, answer, document, entry = self.link, self.answer, self.document, self.entry
        in_feed = float(entry["published_ts"]) if entry.get("published_ts") else None
        published = canonical.published(document.published_ts, in_feed, now)
        return {
            "uid": link.uid,
            "url": without_credentials(link.url),
            "category": link.categories[0],
            "categories": ",".join(link.categories),
            "status": "success",
            "title": document.title or entry.get("title", ""),
            "abstract": document.abstract,
            "clean_text": document.clean_text,
            "markdown": document.markdown,
            "image": document.image,
            "author": document.author or entry.get("author", ""),
            "published_ts": "" if published is None else int(published),
            "language": document.language,
            "fetched_ts": round(now, 3),
            "raw_len": document.raw_len,
            "text_len": document.text_len,
            "final_url": answer.final_url,
            "canonical_url": document.canonical_url,
            "content_hash": document.content_hash,
            "etag": answer.header("etag"),
            "last_modified": answer.header("last-modified"),
            "extractor_version": document.extractor_version,
            "text_source": document.source,
        }


@dataclass(frozen=True, slots=True)
class Visitor:
    """Visits links for one run."""

    desk: Desk
    clock: ServerClock

    async def visit(self, url: str, categories: Sequence[str]) -> Outcome | Unreached | Held:
        """The outcome of a link's first visit, or of another try."""
        link = Link(url, ids.article_uid(url), tuple(sorted(categories)))
        cleaned = urls.clean(url) if _is_text(url) else Rejected(url, "unparsable")
        known = matcher(self.desk.settings.tracking_param_prefixes)
        item_id = ids.item_id("url", url if isinstance(cleaned, Rejected) else urls.normal(url, known))
        acquired = await self.desk.articles.lease(self.desk.leases, link, item_id)
        if acquired is None:
            return Held()
        lease, taken, before = acquired
        try:
            if isinstance(cleaned, Rejected):
                return await self._reject(link, lease, cleaned)
            return await self._visit(link, lease, item_id, taken, before)
        except BaseException:
            await self.desk.leases.release(lease)
            raise

    async def blame(self, unreached: Unreached) -> Outcome:
        """The host's own fault after all."""
        return await self._fail(unreached.link, unreached.lease, unreached.failed, unreached.tries)

    # ── inside a lease ──

    async def _visit(self, link: Link, lease: Lease, item_id: str, taken: int, before: Before) -> Outcome | Unreached:
        desk = self.desk
        link = replace(link, feed=before.entry.get("feed", ""))
        if before.was_attempted:
            await desk.leases.release(lease)
            return Outcome.KNOWN  # by another run, between its look and ours
        if before.is_stored:
            return await self._remember(link, lease)
        if before.article_uid:
            return await self._alias(link, lease, before.article_uid)
        if taken > MOST_DEATHS:
            text = f"Reading this page killed Freshet {MOST_DEATHS} times; it is put aside."
            return await self._fail(link, lease, Failed(FailCode.PARSE, FailDetail.CRASH, text), before.tries)
        async with Room(desk.rooms) as room:
            return await self._fetch(link, lease, item_id, before, room)

    async def _fetch(self, link: Link, lease: Lease, item_id: str, before: Before, room: Room) -> Outcome | Unreached:
        log.info("🌐 Fetching → %s", link.url)
        answer = await self.desk.fetcher.fetch(Request(link.url, max_wait_seconds=MAX_WAIT_SECONDS), room)
        match answer:
            case Deferred():
                log.info("⏳ %s, not before %.0f s → %s", answer.reason, answer.wait_seconds, link.url)
                return await self._put_off(lease)
            case Failed() if canonical.is_connect_failure(answer):
                return Unreached(link, lease, answer, before.tries)
            case Failed():
                return await self._fail(link, lease, answer, before.tries)
        document = await self._read(answer, before.entry)
        if isinstance(document, Failed):
            told = replace(document, http_status=document.http_status or answer.status)
            return await self._fail(link, lease, told, before.tries)
        return await self._settle(Page(link, answer, document, before.entry), lease, item_id)

    async def _read(self, answer: Fetched, entry: Mapping[str, str]) -> Document | Failed:
        """The page as a document; the feed's own text where the page keeps it from us; or why there is none."""
        refused = canonical.refusal(answer, self.clock.now())
        if refused and not canonical.may_use_feed_text(refused):
            return refused
        request = PageTask(
            body=b"" if refused else answer.body,
            url=answer.final_url,
            content_type=answer.header("content-type"),
            main_text=self.desk.settings.main_text,
            feed_html=entry.get("html", ""),
            feed_title=entry.get("title", ""),
            tracking_params=self.desk.settings.tracking_param_prefixes,
        )
        result: PageResult | Failed = await self.desk.pool.run("page", request)
        if isinstance(result, Failed):
            return refused or result
        return result.document or refused or result.failed or Failed(FailCode.EMPTY)

    async def _settle(self, page: Page, lease: Lease, item_id: str) -> Outcome:
        """Store the article, unless its redirect or canonical leads to one that is there."""
        known = matcher(self.desk.settings.tracking_param_prefixes)
        normalised = canonical.identity(page.link.url, page.answer.final_url, page.document.canonical_url, known)
        identity = ids.item_id("url", normalised)
        if identity == item_id:
            return await self._store(page, lease, normalised)
        both = await self._also(lease, identity)
        if both is None:
            return await self._put_off(lease)
        twin = await self.desk.articles.live_article(identity)
        if twin and twin != page.link.uid:
            return await self._alias(page.link, both, twin)
        return await self._store(page, both, normalised)

    async def _also(self, lease: Lease, item: str) -> Lease | None:
        """Another lease beside ours; None when somebody with the same page or text keeps it too long."""
        if await self._patiently(lambda: self.desk.leases.acquire(item, lease.token)):
            return lease.with_key(self.desk.keys.lease(item))
        return None

    async def _patiently(self, take: Callable[[], Awaitable[T | None]]) -> T | None:
        for _ in range(TWIN_PATIENCE):
            taken = await take()
            if taken is not None:
                return taken
            await asyncio.sleep(TWIN_PAUSE_SECONDS)
        return None

    async def _put_off(self, lease: Lease) -> Outcome:
        await self.desk.leases.release(lease)
        return Outcome.DEFERRED

    async def _store(self, page: Page, lease: Lease, normalised: str) -> Outcome:
        link, text = page.link, page.document.content_hash
        shared = await self._patiently(lambda: self.desk.articles.lease_text(self.desk.leases, lease, text, link.uid))
        if shared is None:
            return await self._put_off(lease)
        (wider, original), now = shared, self.clock.now()
        strategy = self.desk.settings.registry_partition_strategy
        record = registry.first_record(page.visited(normalised), link.uid, now, strategy)
        fields = page.fields(now) | {"item_id": record["id"], "duplicate_of": original}
        commands = [*self.desk.articles.store(link, fields, now), *self.desk.items.save(record, now)]
        if not await self.desk.leases.commit(wider, commands):
            return self._late(link)
        log.info("✅ Stored canonical → %s", link.uid)
        return Outcome.DUPLICATE if original else Outcome.STORED

    async def _remember(self, link: Link, lease: Lease) -> Outcome:
        await self.desk.articles.enter_categories(link.uid, link.categories)
        await self.desk.leases.commit(lease, self.desk.articles.remember(link, self.clock.now()))
        return Outcome.KNOWN

    async def _alias(self, link: Link, lease: Lease, target: str) -> Outcome:
        await self.desk.articles.enter_categories(target, link.categories)
        if not await self.desk.leases.commit(lease, self.desk.articles.alias(link, target, self.clock.now())):
            return self._late(link)
        log.info("🔗 Same article → %s", target)
        return Outcome.ALIAS

    async def _fail(self, link: Link, lease: Lease, failed: Failed, tries: int) -> Outcome:
        now = self.clock.now()
        again = canonical.retry_at(failed, tries, now)
        commands = self.desk.articles.fail(link, failed, tries + 1, again, now)
        if not await self.desk.leases.commit(lease, commands):
            return self._late(link)
        name = f"{failed.code}/{failed.detail}" if failed.detail else str(failed.code)
        log.warning("⚠️ %s %s → %s", name, "later again" if again else "skip", link.url)
        return Outcome.RETRY if again else Outcome.FAILED

    async def _reject(self, link: Link, lease: Lease, rejected: Rejected) -> Outcome:
        failed = Failed(FailCode.HTTP, FailDetail.URL, f"This is no link that can be fetched ({rejected.reason}).")
        commands = self.desk.articles.reject(link, failed, self.clock.now())
        if not await self.desk.leases.commit(lease, commands):
            return self._late(link)
        log.warning("⚠️ %s → skip", failed.text)
        return Outcome.REJECTED

    def _late(self, link: Link) -> Outcome:
        log.warning("⚠️ Too late, somebody else has it → %s", link.url)
        return Outcome.KNOWN


def _is_text(url: str) -> bool:
    """Bytes that are no UTF-8 come out of Redis as lone surrogates."""
    return not any("\ud800" <= letter <= "\udfff" for letter in url)
