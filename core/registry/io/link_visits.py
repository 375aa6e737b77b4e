"""The first visit of a link: how it begins, which item its page becomes, how it is committed.

Everything in between (fetch, read, outcome, decision) is the same for every item, see `visit_engine`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from core import ids, schedule
from core.errors import FailCode, FailDetail
from core.models import STOPPED, Deferred, Document, Failed, Fetched, Link, LinkResult, RejectedUrl
from core.registry import field_parsing, http_status_meanings, outcomes
from core.registry.blank_record import blank_record
from core.registry.decide import Decision
from core.registry.io.item_store import LeasedItem
from core.registry.outcomes import Broken, Changed, Excluded, Missing, Outcome, Parked
from core.registry.record import ARTICLES_SOURCE, Item
from core.runs.run import FailedItem
from core.runtime.context import Context
from core.store.clock import ServerClock
from core.store.commands import Command
from core.store.leases import Commit, CommitResult, Lease
from core.urls.normalise import clean_url, normalise_url
from core.urls.secrets import has_credentials, without_credentials
from core.urls.tracking_parameters import tracker_matcher

log = logging.getLogger("canon")
T = TypeVar("T")

LEASE_TRIES = 20
LEASE_PAUSE_SECONDS = 0.25
"""In the mean."""
TITLE_CHARS = 80


class LinkVisits:
    """The links of one run: the results so far, and the links that another worker has."""

    def __init__(self, context: Context, clock: ServerClock) -> None:
        self._context = context
        self._clock = clock
        self._trackers = tracker_matcher(context.settings.tracking_param_prefixes)
        self.results: Counter[LinkResult] = Counter()
        self.on_failed: Callable[[FailedItem], None] = lambda failed: None
        self.on_stored: Callable[[str], None] = lambda uid: None
        """Are told of links that gave no article, and of those that gave one."""
        self.busy: list[str] = []
        """Another run has these links, or their page is being visited under another URL."""

    # ── before the visit ──

    async def begin(self, url: str, categories: Sequence[str]) -> LeasedItem | None:
        """Lease a link for its first visit; None if it needs none, or another worker has it."""
        keys, articles, leases = self._context.keys, self._context.articles, self._context.leases
        link = Link(url, ids.article_uid(url), tuple(sorted(categories)))
        # Bytes that are no UTF-8 come out of Redis as lone surrogates.
        cleaned = clean_url(url) if field_parsing.is_text(url) else RejectedUrl(url, "unparsable")
        normalised = url if isinstance(cleaned, RejectedUrl) else normalise_url(url, self._trackers)
        item = Item(ids.item_id("url", normalised), source=normalised, fetch_url=url)

        read: list[Command] = [
            ("SISMEMBER", keys.attempted, link.uid),
            ("EXISTS", keys.article(link.uid)),
            ("HGET", keys.item(item.id), "articleUid"),
            ("HGET", keys.failure(link.uid), "tries"),
            ("HGETALL", keys.entry(link.uid)),
        ]
        acquired, (is_attempted, is_stored, article_uid, tries, entry) = await leases.acquire_and(item.id, read=read)
        if acquired is None:
            self.busy.append(url)
            return None
        lease, taken = acquired
        try:
            if isinstance(cleaned, RejectedUrl):
                await self._reject(link, lease, cleaned)
            elif is_attempted:  # by another run meanwhile
                await leases.release(lease)
                self.results[LinkResult.KNOWN] += 1
            elif is_stored:  # though not remembered as attempted
                await articles.enter_categories(link.uid, link.categories)
                await leases.commit(lease, articles.remember(link, self._clock.now()))
                self.results[LinkResult.KNOWN] += 1
            elif article_uid and await self._context.client.exists(keys.article(article_uid)):
                await self._alias(link, lease, article_uid)
            else:
                link = replace(link, entry=entry, earlier_tries=field_parsing.integer(tries))
                # A site may list the page, or its article has expired.
                known = None if article_uid is None else (await self._context.items.read([item.id]))[0]
                return LeasedItem(_with_link(known or item, link), lease, taken - 1, link=link)
        except BaseException:
            await leases.release(lease)
            raise
        return None

    async def _reject(self, link: Link, lease: Lease, rejected: RejectedUrl) -> None:
        text = f"This is no link that can be fetched ({rejected.reason})."
        failed = Failed(FailCode.HTTP, FailDetail.URL, text)
        commands = self._context.articles.reject(link, failed, self._clock.now())
        if await self._commit(link, lease, commands, LinkResult.REJECTED):
            log.warning("⚠️ %s → skip", text)

    # ── which item it is ──

    async def resolve(self, leased: LeasedItem, answer: Fetched, document: Document) -> LeasedItem | None:
        """Return the item of the page's canonical URL; None if that has an article, and the link is now its alias."""
        link, item = leased.link, leased.item
        assert link is not None
        normalised = normalise_url(outcomes.canonical_url(answer, document.canonical_url), self._trackers)
        identity = ids.item_id("url", normalised)
        if identity == item.id:
            return leased
        context = self._context

        async def look() -> tuple[Lease, str] | None:
            """Return the lease to commit under, and the article that the page has. Aliases of it wait for nobody."""
            read = [("HGET", context.keys.item(identity), "articleUid")]
            acquired, (uid,) = await context.leases.acquire_and(identity, leased.lease.token, read)
            twin = uid if uid and uid != link.uid and await context.client.exists(context.keys.article(uid)) else ""
            if acquired:
                return leased.lease.with_key(context.keys.lease(identity)), twin
            return (leased.lease, twin) if twin else None

        looked = await self._retry(look)
        if looked is None:
            await self._defer(leased)
            return None
        lease, twin = looked
        if twin:
            await self._alias(link, lease, twin)
            return None
        known = (await context.items.read([identity]))[0]
        known = known or Item(identity, source=normalised, fetch_url=answer.permanent_target or answer.url)
        return replace(leased, item=_with_link(known, link), lease=lease)

    async def lease_text(self, leased: LeasedItem, changed: Changed) -> LeasedItem | None:
        """Lease the text too, and learn which article had it first; None if the link is committed or postponed.

        The same text from the same final URL is the same page, also behind a temporary redirect.
        """
        link, context, content_hash = leased.link, self._context, changed.document.content_hash
        assert link is not None
        name, first_with = _text_name(content_hash), context.keys.content(content_hash)

        async def look() -> tuple[Lease, str, object] | None:
            """Return the lease to commit under, and the first article with the text, if another has it, with its URL.

            The lease decides which of several is the first. Once there is one, its copies need not wait for each other:
            of a thousand pages with one text (a notice of a paywall), most would wait in vain, and be put off.
            """
            read = [("GET", first_with)]
            acquired, (uid,) = await context.leases.acquire_and(name, leased.lease.token, read)
            final_url: object = None
            if uid and uid != link.uid:
                final_url = await context.client.hget(context.keys.article(uid), "final_url")
            if acquired:
                return leased.lease.with_key(context.keys.lease(name)), uid, final_url
            return None if final_url is None else (leased.lease, uid, final_url)

        looked = await self._retry(look)
        if looked is None:
            await self._defer(leased)
            return None
        lease, original, final_url = looked
        if final_url is None:  # the text is new, or its first article has expired
            return replace(leased, lease=lease)
        if normalise_url(str(final_url)) == normalise_url(changed.visit.fetched_url):
            await self._alias(link, lease, original)
            return None
        return replace(leased, lease=lease, link=replace(link, duplicate_of=original))

    async def _retry(self, acquire: Callable[[], Awaitable[T | None]]) -> T | None:
        """Another worker may have the same page or text, mostly for a moment."""
        for _ in range(LEASE_TRIES):
            taken = await acquire()
            if taken is not None:
                return taken
            # Not all at the same moment: of many pages with one text (a notice of a paywall), all that begin together
            # would ask in one burst for ever, and only the first of each burst would find the lease free.
            await asyncio.sleep(LEASE_PAUSE_SECONDS * 2 * random.random())
        return None

    # ── commit ──

    async def store(
        self, leased: LeasedItem, decision: Decision, commands: Sequence[Command], changed: Changed, *, is_sure: bool
    ) -> bool:
        """Commit an article with the record of its page; False if nothing was, and `lease_text` has to come first.

        Nearly every text is new. So a visit that is not sure of it just expects that no article has the text and that
        nobody leases it: that takes no round trip of its own.
        """
        link, item, context = leased.link, leased.item, self._context
        assert link is not None
        decision = replace(decision, event="")  # `article.stored` says it
        if has_credentials(link.url):  # these are stored nowhere, so it cannot be fetched again
            decision = replace(decision, next_at=None, fields=decision.fields | {"nextCrawlAt": ""})
        blank = blank_record(
            item.source, item.fetch_url, self._clock.now(), strategy=context.settings.registry_partition_strategy
        )
        written = [*context.items.enlist(item, decision.status, blank), *context.items.apply(item, decision), *commands]
        expected = context.items.expected(item, item.generation)
        if not is_sure:
            content_hash = changed.document.content_hash
            first_with, lease = context.keys.content(content_hash), context.keys.lease(_text_name(content_hash))
            expected += (first_with, "", "0", lease, "", "0")
        match await context.leases.commit_soon(Commit(leased.lease, written, expected)):
            case CommitResult.WRITTEN:
                self._count(link, LinkResult.DUPLICATE if link.duplicate_of else LinkResult.STORED)
                self.on_stored(link.uid)
                log.info("✅ Stored canonical → %s  %s", link.uid, changed.document.title[:TITLE_CHARS])
            case CommitResult.OUTDATED if not is_sure:
                return False
            case CommitResult.OUTDATED:  # a site has just listed the page: visit it again with the new record
                await self._visit_again(link, leased.lease)
            case CommitResult.LEASE_LOST:
                self._count(link, None)
        return True

    async def fail(self, leased: LeasedItem, outcome: Outcome) -> None:
        """Commit a visit without an article: a failure with a time to retry, or as attempted."""
        link, now = leased.link, self._clock.now()
        assert link is not None
        assert isinstance(outcome, Missing | Broken | Excluded | Parked)
        failed = outcomes.to_failure(outcome)
        can_retry = http_status_meanings.is_transient(failed) and not isinstance(outcome, Parked)
        wait = schedule.link_retry_seconds(link.earlier_tries) if can_retry else None
        retry_at = None if wait is None else schedule.retry_at(now, wait, failed.retry_after_seconds)
        commands = self._context.articles.fail(link, failed, link.earlier_tries + 1, retry_at, now)
        if await self._commit(link, leased.lease, commands, LinkResult.RETRY if retry_at else LinkResult.FAILED):
            name = f"{failed.code}/{failed.detail}" if failed.detail else str(failed.code)
            self.on_failed(FailedItem(link.uid, link.url, str(failed.code), failed.text, now))
            reason = "Bad HTML" if failed.code is FailCode.BAD_HTML else name
            log.warning("⚠️ %s → %s  %s", reason, "retry later" if retry_at else "skip", link.url)

    async def postpone(self, leased: LeasedItem, deferred: Deferred) -> None:
        """Leave a link for the next run; nothing is written."""
        if deferred != STOPPED:
            log.info("⏳ %s, not before %.0f s → %s", deferred.reason, deferred.wait_seconds, leased.item.fetch_url)
        await self._defer(leased)

    async def _defer(self, leased: LeasedItem) -> None:
        await self._context.leases.release(leased.lease)
        self.results[LinkResult.DEFERRED] += 1

    async def _alias(self, link: Link, lease: Lease, target: str) -> None:
        await self._context.articles.enter_categories(target, link.categories)
        commands = self._context.articles.alias(link, target, self._clock.now())
        # No lease of ours keeps it from being removed. A removal that has read its aliases already, and is written
        # after this, leaves an alias of nothing: the doctor's sample finds it, and the link is fetched again.
        is_there = (self._context.keys.article(target), "uid", target)
        if await self._commit(link, lease, commands, LinkResult.ALIAS, is_there):
            self.on_stored(link.uid)
            log.info("🔗 Same article → %s", target)

    async def _commit(
        self, link: Link, lease: Lease, commands: Sequence[Command], result: LinkResult, expected: tuple[str, ...] = ()
    ) -> bool:
        committed = await self._context.leases.commit_soon(Commit(lease, commands, expected))
        if committed is CommitResult.OUTDATED:
            await self._visit_again(link, lease)
        else:
            self._count(link, result if committed is CommitResult.WRITTEN else None)
        return committed is CommitResult.WRITTEN

    async def _visit_again(self, link: Link, lease: Lease) -> None:
        await self._context.leases.release(lease)
        self.busy.append(link.url)

    def _count(self, link: Link, result: LinkResult | None) -> None:
        """Count a link; None: its lease was lost, and another worker has it."""
        if result is None:
            log.warning("⚠️ Lease lost, result discarded → %s", link.url)
        self.results[result or LinkResult.KNOWN] += 1


def _text_name(content_hash: str) -> str:
    """Return the name under which a text is leased."""
    return f"text_{content_hash}"


def _with_link(item: Item, link: Link) -> Item:
    """Return the item as one that feeds list too."""
    return replace(
        item,
        sources=tuple(dict.fromkeys((*item.sources, ARTICLES_SOURCE))),
        article_uid=link.uid,
        article_url=without_credentials(link.url),
        article_categories=",".join(link.categories),
    )
