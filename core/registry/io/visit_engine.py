"""Visit one item: fetch, read, outcome, decide, commit. The only place where these steps are put together.

The first visit of a feed's link, a refresh, a page of a crawl and a forced reindex all come through here. An article
is an item whose first visit also writes the article hash (`link_visits`).
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from core import ids, schedule
from core.errors import FailCode, FailDetail
from core.models import STOPPED, Deferred, Document, Failed, Fetched, Link
from core.net.fetcher import BodySlot
from core.net.network_health import NetworkHealth
from core.pages.extraction_result import EXTRACTOR_VERSION
from core.registry import article_fields, decide, field_parsing, http_status_meanings, outcomes
from core.registry.decide import TextAction
from core.registry.http_status_meanings import ResponseKind
from core.registry.io.aliases import AliasFinder
from core.registry.io.body_reader import BodyReader, ParsedBody
from core.registry.io.commit_buffer import CommitBuffer, DecidedVisit, VisitReport
from core.registry.io.item_store import LeasedItem
from core.registry.io.link_visits import LinkVisits
from core.registry.io.loss_guard import LossGuard
from core.registry.outcomes import Broken, Changed, Excluded, Outcome, Parked, Unchanged
from core.registry.page_visit import PageVisit
from core.registry.record import ARTICLES_SOURCE
from core.runtime.context import Context
from core.sources.io.link_follower import LinkFollower
from core.sources.io.open_sources import OpenSources
from core.sources.io.source import Source
from core.store.clock import ServerClock
from core.store.leases import Commit
from core.urls.normalise import host_of

log = logging.getLogger("refresh")

OFFLINE = Deferred(60.0, "our own network looked down")


class VisitEngine:
    """Visits items and links for one run or one job; `buffer` and `links` commit the results."""

    def __init__(
        self,
        context: Context,
        clock: ServerClock,
        open_sources: OpenSources,
        buffer: CommitBuffer,
        links: LinkVisits,
        *,
        is_run: bool = False,
    ) -> None:
        """`is_run`: a run reports at its end what then need not be logged here."""
        self._context = context
        self._clock = clock
        self._open_sources = open_sources
        self._buffer = buffer
        self._links = links
        self._reader = BodyReader(context, clock)
        self._link_follower = LinkFollower(context, open_sources, clock, is_run=is_run)
        self._guard = LossGuard(context, open_sources, clock, is_run=is_run)
        self._alias_finder = AliasFinder(context, clock, self._link_follower, self._visit_now)
        self._unreached: list[tuple[LeasedItem, Source, Failed]] = []
        self._postponed: Counter[str] = Counter()
        self.network = NetworkHealth()

    async def visit(self, leased: LeasedItem) -> None:
        """Visit one item and hand its result to the commit; hosts not reached wait for `settle_unreached`."""
        if leased.item.is_forced:
            leased = await self._revive(leased)
        source = await self._open_sources.for_item(leased.item, leased.via)
        item = leased.item
        # An article whose TTL is over is not fetched again; the cleanup ends its item.
        has_expired = item.article_uid and not leased.is_article and item.sources == (ARTICLES_SOURCE,)
        if source is None or has_expired:
            # Not due any more; a force that nothing can answer is used up.
            await self._context.leases.commit_many([Commit(leased.lease, self._context.items.retire(item))])
            return
        report: VisitReport | None
        if leased.deaths >= schedule.MAX_CRASHES:  # a force resets the count
            report = VisitReport(leased, Parked(leased.deaths))
        else:
            report = await self._alias_finder.confirm(leased, source) if item.alias_of else None
            report = report or await self._fetch(leased, source)
        if report is not None:
            await self._settle(report, source)

    async def _visit_now(self, leased: LeasedItem) -> None:
        await self.visit(leased)
        await self._buffer.flush()

    async def _revive(self, leased: LeasedItem) -> LeasedItem:
        """An article that expired or was gone comes back if it is forced."""
        item = leased.item
        if leased.is_article or not item.article_uid or not item.is_forced or ARTICLES_SOURCE not in item.sources:
            return leased
        url = item.article_url or item.fetch_url
        categories = tuple(filter(None, item.article_categories.split(",")))
        categories = categories or await self._context.links.categories_of(url)
        if not categories:
            return leased
        return replace(leased, link=Link(url, item.article_uid, categories, is_first_visit=False))

    # ── fetch ──

    async def _fetch(self, leased: LeasedItem, source: Source) -> VisitReport | None:
        """Fetch and interpret the answer; None if the visit is postponed, settled already, or settled at the end."""
        if leased.link and leased.is_first_visit:
            logging.getLogger("canon").info("🌐 Fetching → %s", leased.link.url)
        item, conditional = leased.item, self._validators(leased)
        # A snapshot is made of the plain body, and a known page compares it; else the parse child unpacks it.
        keep_packed = leased.is_first_visit and source.is_built_in and not self._context.settings.snapshot_days
        with BodySlot(self._context.body_slots, keep_packed=keep_packed) as slot:
            answer = await source.fetch(item, conditional, slot)
            if isinstance(answer, Fetched) and answer.status == 304 and not (conditional and item.has_text):
                # Some caches answer 304 unasked: once more, bypassing them.
                answer = await source.fetch(replace(item, generation=item.processed_generation + 1), {}, slot)
            if isinstance(answer, Deferred):
                await self._postpone(leased, answer)
                return None
            is_unreached = isinstance(answer, Failed) and http_status_meanings.is_unreached(answer)
            self.network.record(host_of(item.fetch_url) if is_unreached else "", was_reached=not is_unreached)
            if isinstance(answer, Failed) and is_unreached:
                self._unreached.append((leased, source, answer))
                return None
            return await self._interpret(leased, source, answer, bool(conditional))

    def _validators(self, leased: LeasedItem) -> Mapping[str, str]:
        is_wanted = not leased.link and decide.should_ask_conditionally(
            leased.item,
            extractor_version=EXTRACTOR_VERSION,
            has_snapshot=leased.has_snapshot,
            is_trusted=leased.is_trusted,
            audit_every=self._context.settings.audit_every_checks,
        )
        return leased.item.validators if is_wanted else {}

    async def _postpone(self, leased: LeasedItem, deferred: Deferred) -> None:
        if leased.is_first_visit:
            await self._links.postpone(leased, deferred)
            return
        if deferred == STOPPED:
            due_now = self._context.items.postpone(leased.item, self._clock.now())
            await self._context.leases.commit_many([Commit(leased.lease, due_now)])
            return
        log.debug("⏳ %s, not before %.0f s → %s", deferred.reason, deferred.wait_seconds, leased.item.fetch_url)
        self._postponed[deferred.reason] += 1
        wait = max(deferred.wait_seconds, 1.0)
        commands = self._context.items.postpone(leased.item, self._clock.now() + wait, wait)
        await self._context.leases.commit_many([Commit(leased.lease, commands)])

    # ── outcome, without a look into the body ──

    async def _interpret(
        self, leased: LeasedItem, source: Source, answer: Fetched | Failed, was_conditional: bool
    ) -> VisitReport | None:
        item = leased.item
        outcome = outcomes.from_response(item, answer, was_conditional, self._clock.now())
        if isinstance(answer, Failed):
            assert outcome is not None
            if answer.detail is FailDetail.TOO_LARGE and isinstance(outcome, Excluded):
                # Hashed as a stream, if its listing says that it changed.
                is_same = item.content_hash and item.listed_version == item.visited_version and not item.is_forced
                content_hash = item.content_hash if is_same else await source.hash_of(item) or ""
                outcome = replace(outcome, content_hash=content_hash)
            return VisitReport(leased, outcome)
        if isinstance(outcome, Unchanged):
            return await self._unchanged(leased, source, answer, outcome)
        if isinstance(outcome, Broken) and http_status_meanings.failure(outcome.failed).kind is ResponseKind.FORBIDDEN:
            return await self._forbidden(leased, source, answer, outcome)
        if outcome is not None:
            return VisitReport(leased, outcome)
        # The same bytes from elsewhere are read: the page may have another URL now.
        is_known = item.has_text and item.extractor_version == EXTRACTOR_VERSION and not item.is_forced
        is_known = is_known and answer.final_url == item.validators_url and not leased.link
        if is_known and item.body_hash == ids.body_hash(answer.body):
            return VisitReport(leased, outcomes.unchanged(item, answer))
        return await self._read(leased, source, answer)

    async def _unchanged(
        self, leased: LeasedItem, source: Source, answer: Fetched, outcome: Unchanged
    ) -> VisitReport | None:
        item = leased.item
        if item.extractor_version == EXTRACTOR_VERSION:
            await self._link_follower.land(item, answer, source)
            return VisitReport(leased, await self._alias_finder.to_canonical(leased, source, answer) or outcome)
        snapshot = await self._context.documents.read_snapshot(item)
        if snapshot is None:  # expired meanwhile: the next visit fetches the page
            failed = Failed(FailCode.HTTP, FailDetail.PROTOCOL, "The snapshot is gone.")
            return VisitReport(leased, Broken(failed))
        return await self._read(leased, source, snapshot, is_snapshot=True)

    async def _forbidden(
        self, leased: LeasedItem, source: Source, answer: Fetched, outcome: Broken
    ) -> VisitReport | None:
        """The page is kept from us: the text that its feed published stands in for it, now or since its first visit."""
        if _has_feed_text(leased):
            return VisitReport(leased, Unchanged(answer.status, is_feed_text=True))
        if leased.link and leased.link.entry.get("html"):
            report = await self._read(leased, source, replace(answer, body=b""))
            if report is None or isinstance(report.outcome, Changed):
                return report
        return VisitReport(leased, outcome)

    # ── read, and the outcome of what was read ──

    async def _read(
        self, leased: LeasedItem, source: Source, answer: Fetched, *, is_snapshot: bool = False
    ) -> VisitReport | None:
        """Parse the body and say what it means; None if the link is an alias, which is committed then."""
        parsed = await self._reader.read(leased, answer, source.follows_links)
        if parsed.unpacking:
            return await self._interpret(leased, source, replace(parsed.unpacking, http_status=answer.status), False)
        resolved: LeasedItem | None = leased
        if leased.is_first_visit and isinstance(parsed.document, Document):
            resolved = await self._links.resolve(leased, answer, parsed.document)
        return await self._report(resolved, source, answer, parsed, is_snapshot) if resolved else None

    async def _report(
        self, leased: LeasedItem, source: Source, answer: Fetched, parsed: ParsedBody, is_snapshot: bool
    ) -> VisitReport:
        item, document = leased.item, parsed.document
        has_known_text = bool(item.has_text or item.alias_of)
        if isinstance(document, Document) and not is_snapshot:
            stray = await self._link_follower.land(item, answer, source, parsed.links)
            if stray and has_known_text:
                return VisitReport(leased, Broken(Failed(FailCode.HTTP, FailDetail.REDIRECTS, stray, answer.status)))
        # A page that keeps its text because there is none now (a paywall, an error) keeps its links as well.
        is_kept = isinstance(document, Failed) and has_known_text
        commands = [] if is_kept else await self._link_follower.follow(item, parsed.links, source)
        withdrawn = outcomes.by_noindex(answer, parsed.is_noindex)
        if withdrawn and not leased.is_article:
            return VisitReport(leased, withdrawn, commands)
        visit = outcomes.page_visit(item, answer, document, parsed.body_hash, item.source, parsed.body_bytes)
        outcome = await self._outcome(leased, visit, parsed)
        report = VisitReport(leased, outcome, commands)
        if not is_snapshot:
            commands += self._context.documents.snapshot(item, answer)
            # A snapshot does not know which redirects led to it; an article stays one until its TTL ends.
            if source.follows_links and not leased.is_article and isinstance(outcome, Changed | Unchanged):
                moved = await self._alias_finder.alias(report, source, answer, visit, parsed)
                if moved:
                    return moved
        if isinstance(outcome, Unchanged) and isinstance(document, Document):
            # The text is the same, its images need not be.
            commands += await self._context.documents.replace_images(item, document.images, self._clock.now())
        is_audit = item.conditional_streak >= self._context.settings.audit_every_checks - 1 and item.validators
        if isinstance(outcome, Changed) and visit.content_hash != item.content_hash and is_audit:
            await self._guard.check_304(leased, source, item.validators)
        return report

    async def _outcome(self, leased: LeasedItem, visit: PageVisit, parsed: ParsedBody) -> Outcome:
        item, document, now = leased.item, parsed.document, self._clock.now()
        if _has_feed_text(leased):
            # A feed's own text is not replaced by less, nor given up for a page without any.
            if isinstance(document, Failed):
                is_less = document.code in outcomes.NO_TEXT
            else:
                is_less = document.text_len < field_parsing.integer(leased.article.get("text_len"))
            if is_less:
                return Unchanged(visit.http_status, is_feed_text=True)
        if leased.link and isinstance(document, Document):
            return Changed(document, visit)
        is_new_metadata = False
        if isinstance(document, Document) and item.has_text and item.content_hash == document.content_hash:
            before = leased.article or await self._context.documents.metadata(item)
            is_article = bool(leased.article)
            is_new_metadata = article_fields.is_new_metadata(document, before, is_article=is_article, now=now)
        return outcomes.from_document(
            item,
            visit,
            document,
            extractor_version=EXTRACTOR_VERSION,
            force_on_canonical=self._context.settings.force_reindex_on_canonical_change,
            is_new_metadata=is_new_metadata,
        )

    # ── decide and commit ──

    async def _settle(self, report: VisitReport, source: Source) -> None:
        if report.leased.is_first_visit:
            await self._settle_link(report, source)
            return
        decided = [await self._decide(report, source)]
        if report.target:  # before its alias, and in the same commit
            decided.insert(0, await self._decide(report.target, source))
        await self._buffer.add(*decided)

    async def _settle_link(self, report: VisitReport, source: Source) -> None:
        outcome = report.outcome
        if not isinstance(outcome, Changed):
            await self._links.fail(report.leased, outcome)
            return
        decided = await self._decide(report, source)
        if await self._links.store(report.leased, decided.decision, decided.commands, outcome, is_sure=False):
            return
        leased = await self._links.lease_text(report.leased, outcome)
        if leased is not None:
            decided = await self._decide(replace(report, leased=leased), source)
            await self._links.store(leased, decided.decision, decided.commands, outcome, is_sure=True)

    async def _decide(self, report: VisitReport, source: Source) -> DecidedVisit:
        """Decide about a visit and collect everything that is written."""
        leased, outcome = report.leased, report.outcome
        visit_context = await self._guard.visit_context(leased.item, outcome)
        policy, chance, now = self._context.recheck_policy, random.random(), self._clock.now()
        if interval := await self._open_sources.recheck_seconds(leased.item):
            policy = policy.every(interval)
        if leased.item.article_uid:
            # Within its TTL, so that a correction is seen before the article ends.
            policy = policy.capped(self._context.settings.article_ttl_seconds * 3 / 7)
        elif source.state.root_id == leased.item.id:
            policy = policy.capped(policy.base_seconds)
        decision = decide.decide(leased.item, outcome, now, chance, policy, visit_context)
        commands = list(report.commands)
        if decision.text is not TextAction.KEEP or leased.article:
            commands += await self._context.documents.apply(leased, decision, outcome, now)
        commands += self._guard.consequences(leased.item, source, decision, now)
        return DecidedVisit(leased, outcome, policy, visit_context, chance, decision, commands)

    # ── hosts that did not answer ──

    async def settle_unreached(self) -> None:
        """Count a failure for each host that did not answer, unless nearly none answered: then it is our network."""
        if self.network.is_down:
            log.error("⚠️ Nearly no host answers: our own network looks down. Nothing is counted against anybody.")
        while self._unreached:
            leased, source, failed = self._unreached.pop()
            if self.network.is_down:
                await self._postpone(leased, OFFLINE)
            else:
                await self._settle(VisitReport(leased, Broken(failed)), source)
        for reason, count in self._postponed.items():
            log.info("⏳ %d put off: %s", count, reason)
        self._postponed.clear()

    def take_unreached(self) -> list[LeasedItem]:
        """Give up the items that wait for `settle_unreached`, when that will not come."""
        leased = [leased for leased, _, _ in self._unreached]
        self._unreached.clear()
        return leased


def _has_feed_text(leased: LeasedItem) -> bool:
    """Return whether the stored text is the feed's own, because the page could not be read."""
    article = leased.article
    return article.get("text_source") == "feed" and article.get("status") == "success"
