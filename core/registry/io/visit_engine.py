"""One visit of anything: fetch, read, outcome, decide, commit. The only place where these meet.

The first visit of a feed's link, a refresh, a page of a crawl and a forced reindex all come through here. An article
is an item whose first visit also writes the article hash (`link_visits`).
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from core import ids
from core.errors import FailCode, FailDetail
from core.models import Deferred, Document, Failed, Fetched, FetchResult, Link
from core.net.body_slot import BodySlot
from core.net.health import NetworkHealth
from core.pages.extract import EXTRACTOR_VERSION
from core.registry import classify, decide, field_parsing, outcomes, stored_fields
from core.registry.classify import ResponseKind
from core.registry.decide import RecheckPolicy
from core.registry.io.aliases import AliasFinder, VisitReport
from core.registry.io.body_reader import BodyReader, Read
from core.registry.io.commit_buffer import CommitBuffer, DecidedVisit
from core.registry.io.deletion_guard import DeletionGuard
from core.registry.io.items import LeasedItem
from core.registry.io.link_visits import LinkVisits
from core.registry.outcomes import Broken, Changed, Excluded, Outcome, Parked, Unchanged
from core.registry.record import ARTICLES_SOURCE, Item, PageVisit
from core.runtime.context import Context
from core.sources.io.link_follower import LinkFollower
from core.sources.io.open_sources import OpenSources
from core.sources.io.source import Source
from core.store.clock import ServerClock
from core.store.commit import Commit
from core.urls.normalise import host_of

log = logging.getLogger("refresh")

MOST_DEATHS = 3
OFFLINE = Deferred(60.0, "our own network looked down")


class VisitEngine:
    """Visits items and links for one run or one job; `ledger` and `links` take what came of it."""

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
        """`is_run`: a run tells at its end what nobody has to tell twice."""
        self._context = context
        self._clock = clock
        self._open_sources = open_sources
        self._buffer = buffer
        self._links = links
        self._reader = BodyReader(context)
        self._link_follower = LinkFollower(context, open_sources, clock, is_told_by_run=is_run)
        self._guard = DeletionGuard(context, open_sources, clock, is_told_by_run=is_run)
        self._alias_finder = AliasFinder(context, clock, self._link_follower, self._settle, self._visit_now)
        self._unreached: list[tuple[LeasedItem, Source, Failed]] = []
        self._postponed: Counter[str] = Counter()
        self.network = NetworkHealth()

    async def visit(self, leased: LeasedItem) -> None:
        """Bring one visit to its end; whose host was not reached is kept for `settle_unreached`."""
        leased = await self._revived(leased)
        item = leased.item
        source = await self._open_sources.of(item)
        if source is None or self._has_ended(leased):
            await self._stop_checking(leased)
            return
        if leased.deaths >= MOST_DEATHS:  # a force has begun the count anew
            await self._settle(leased, source, VisitReport(Parked(leased.deaths)))
            return
        is_known_alias = item.alias_of and not item.is_forced and not leased.link
        if is_known_alias and await self._alias_finder.is_still_alias(leased, source):
            return
        async with BodySlot(self._context.body_slots) as slot:
            visited = await self._fetch(leased, source, slot)
        if visited is not None:
            await self._settle(visited.leased or leased, source, visited)

    async def _visit_now(self, leased: LeasedItem) -> None:
        await self.visit(leased)
        await self._buffer.flush()

    # ── who is not visited ──

    async def _revived(self, leased: LeasedItem) -> LeasedItem:
        """An article that ended or was gone comes back if somebody asks for it by name."""
        item = leased.item
        if leased.is_article or not item.article_uid or not item.is_forced or ARTICLES_SOURCE not in item.sources:
            return leased
        url = item.article_url or item.fetch_url
        categories = tuple(filter(None, item.article_categories.split(",")))
        categories = categories or await self._context.links.categories_of(url)
        if not categories:
            return leased
        return replace(leased, link=Link(url, item.article_uid, categories, is_first_visit=False))

    def _has_ended(self, leased: LeasedItem) -> bool:
        """An article whose TTL is over is not fetched again; its record waits for its own end."""
        item = leased.item
        return bool(item.article_uid) and not leased.is_article and item.sources == (ARTICLES_SOURCE,)

    async def _stop_checking(self, leased: LeasedItem) -> None:
        """Not due any more; a force that nothing can answer is used up."""
        await self._context.leases.commit_many([Commit(leased.lease, self._context.items.rest(leased.item))])

    # ── fetch ──

    async def _fetch(self, leased: LeasedItem, source: Source, slot: BodySlot) -> VisitReport | None:
        """What the source answers, and what that means; None if it was put off, or is judged later."""
        item = leased.item
        conditional = self._conditional(leased)
        if leased.link and leased.link.is_first_visit:
            logging.getLogger("canon").info("🌐 Fetching → %s", leased.link.url)
        answer = await source.fetch(item, conditional, slot)
        if isinstance(answer, Fetched) and answer.status == 304 and not (conditional and item.has_text):
            # Some caches answer so unasked: once more, and without them.
            answer = await source.fetch(replace(item, generation=item.processed_generation + 1), {}, slot)
        if isinstance(answer, Deferred):
            await self._postpone(leased, answer)
            return None
        is_unreached = isinstance(answer, Failed) and classify.is_unreached(answer)
        self.network.record(host_of(item.fetch_url), was_reached=not is_unreached)
        if isinstance(answer, Failed) and is_unreached:
            self._unreached.append((leased, source, answer))
            return None
        return await self._understand(leased, source, answer, bool(conditional))

    def _conditional(self, leased: LeasedItem) -> Mapping[str, str]:
        item, settings = leased.item, self._context.settings
        is_wanted = not leased.link and decide.should_ask_conditionally(
            item,
            extractor_version=EXTRACTOR_VERSION,
            has_snapshot=leased.has_snapshot,
            is_trusted=leased.is_trusted,
            audit_every=settings.audit_every_checks,
        )
        return item.validators if is_wanted else {}

    async def _postpone(self, leased: LeasedItem, answer: Deferred) -> None:
        if leased.link and leased.link.is_first_visit:
            await self._links.postpone(leased, answer)
            return
        log.debug("⏳ %s, not before %.0f s → %s", answer.reason, answer.wait_seconds, leased.item.fetch_url)
        self._postponed[answer.reason] += 1
        wait = max(answer.wait_seconds, 1.0)
        postpone = self._context.items.postpone(leased.item, self._clock.now() + wait, wait)
        await self._context.leases.commit_many([Commit(leased.lease, postpone)])

    # ── what it means ──

    async def _understand(
        self, leased: LeasedItem, source: Source, answer: FetchResult, was_conditional: bool
    ) -> VisitReport | None:
        """The meaning of an answer; None if it was the meaning of another item too, and both are settled."""
        assert not isinstance(answer, Deferred)
        item = leased.item
        outcome = outcomes.from_response(item, answer, was_conditional, self._clock.now())
        if isinstance(outcome, Unchanged) and item.extractor_version != EXTRACTOR_VERSION:
            kept = await self._context.documents.read_snapshot(item)
            if kept is None:  # it has just ended: the page itself, then
                return VisitReport(Broken(Failed(FailCode.HTTP, FailDetail.PROTOCOL, "The snapshot is gone.")))
            return await self._read(leased, source, kept, is_from_snapshot=True)
        if isinstance(outcome, Unchanged) and isinstance(answer, Fetched):
            await self._link_follower.land(item, answer, source)
            moved = await self._alias_finder.to_canonical(leased, source, answer)
            return VisitReport(moved or outcome)
        if isinstance(outcome, Broken) and isinstance(answer, Fetched) and _is_closed(outcome.failed):
            return await self._forbidden(leased, source, answer, outcome)
        if outcome is not None or not isinstance(answer, Fetched):
            assert outcome is not None
            return VisitReport(await self._with_hash(item, source, answer, outcome))
        if self._is_same_body(item, answer) and not leased.link:
            return VisitReport(outcomes.unchanged(item, answer))
        return await self._read(leased, source, answer)

    async def _forbidden(
        self, leased: LeasedItem, source: Source, answer: Fetched, outcome: Broken
    ) -> VisitReport | None:
        """The page is kept from us: the text that its feed published stands in for it, now or since its first visit."""
        if _has_feed_text(leased):
            return VisitReport(Unchanged(answer.status))
        if leased.link and leased.link.entry.get("html"):
            visited = await self._read(leased, source, replace(answer, body=b""))
            return visited if visited is None or isinstance(visited.outcome, Changed) else VisitReport(outcome)
        return VisitReport(outcome)

    async def _with_hash(self, item: Item, source: Source, answer: Fetched | Failed, outcome: Outcome) -> Outcome:
        """A file too large to be read is hashed as a stream, if its metadata has changed since (spec 000 §5)."""
        is_large = isinstance(answer, Failed) and answer.detail is FailDetail.TOO_LARGE
        if not is_large or not isinstance(outcome, Excluded):
            return outcome
        if item.content_hash and item.listed_version == item.visited_version and not item.is_forced:
            return replace(outcome, content_hash=item.content_hash)
        return replace(outcome, content_hash=await source.hash_of(item) or "")

    def _is_same_body(self, item: Item, answer: Fetched) -> bool:
        if answer.final_url != item.validators_url:
            return False  # the same bytes from elsewhere: the page may have another name now
        is_readable = item.has_text and item.extractor_version == EXTRACTOR_VERSION and not item.is_forced
        return is_readable and item.body_hash == ids.body_hash(answer.body)

    async def _read(
        self, leased: LeasedItem, source: Source, answer: Fetched, *, is_from_snapshot: bool = False
    ) -> VisitReport | None:
        read = await self._reader.read(leased, answer, source.follows_links)
        if leased.link and leased.link.is_first_visit and isinstance(read.document, Document):
            renamed = await self._links.named(leased, answer, read.document)
            if renamed is None:
                return None
            leased = renamed
        item = leased.item
        if isinstance(read.document, Document) and not is_from_snapshot:
            stray = await self._link_follower.land(item, answer, source, read.links)
            if stray and (item.has_text or item.alias_of):
                return VisitReport(Broken(Failed(FailCode.HTTP, FailDetail.REDIRECTS, stray, answer.status)))
        # A page that keeps its text because there is none now (a wall, an error) keeps its links as well.
        is_kept = isinstance(read.document, Failed) and bool(item.has_text or item.alias_of)
        followed = [] if is_kept else await self._link_follower.follow(item, read.links, source)
        if not leased.is_article and (read.is_noindex or _forbids_index(answer)):
            why = "The page asks not to be indexed (noindex)."
            return VisitReport(Excluded(why, http_status=answer.status, is_withdrawn=True), followed)
        visit = outcomes.page_visit(item, answer, read.document, ids.body_hash(answer.body), item.source)
        outcome = await self._outcome(leased, visit, read)
        commands = [*followed, *(() if is_from_snapshot else self._context.documents.snapshot(item, answer))]
        # A snapshot has forgotten which redirects led to it; an article stays one for its life.
        may_move = source.follows_links and not is_from_snapshot and not leased.is_article
        if may_move and isinstance(outcome, Changed | Unchanged):
            moved = await self._alias_finder.alias(leased, source, answer, visit, read, commands)
            if moved:
                return moved if isinstance(moved, VisitReport) else None
        if isinstance(outcome, Unchanged) and isinstance(read.document, Document):
            # The text is the same, its pictures need not be.
            commands += await self._context.documents.replace_images(item, read.document, self._clock.now())
        is_new_text = isinstance(outcome, Changed) and visit.content_hash != item.content_hash
        if is_new_text and self._is_audit(leased):
            await self._guard.check_304(leased, source, item.validators)
        return VisitReport(outcome, commands, leased)

    async def _outcome(self, leased: LeasedItem, visit: PageVisit, read: Read) -> Outcome:
        item, document, now = leased.item, read.document, self._clock.now()
        if _has_feed_text(leased) and _says_less(leased, document):
            return Unchanged(visit.http_status)
        if leased.link and isinstance(document, Document):
            return Changed(document, visit)
        is_new_metadata = False
        if isinstance(document, Document) and item.has_text and item.content_hash == document.content_hash:
            before = leased.article or await self._context.documents.metadata(item)
            is_article = bool(leased.article)
            is_new_metadata = stored_fields.is_new_metadata(document, before, is_article=is_article, now=now)
        return outcomes.from_document(
            item,
            visit,
            document,
            extractor_version=EXTRACTOR_VERSION,
            force_on_canonical=self._context.settings.force_reindex_on_canonical_change,
            is_new_metadata=is_new_metadata,
        )

    def _is_audit(self, leased: LeasedItem) -> bool:
        item = leased.item
        return item.conditional_streak >= self._context.settings.audit_every_checks - 1 and bool(item.validators)

    # ── decide and commit ──

    async def _settle(self, leased: LeasedItem, source: Source, visited: VisitReport) -> None:
        outcome, link = visited.outcome, leased.link
        is_first_visit = link is not None and link.is_first_visit
        if is_first_visit and not isinstance(outcome, Changed):
            await self._links.fail(leased, outcome)
            return
        if is_first_visit and isinstance(outcome, Changed):
            with_text = await self._links.with_text(leased, outcome)
            if with_text is None:
                return
            leased = with_text
        entries = [await self._entry(leased, source, visited)]
        if is_first_visit and isinstance(outcome, Changed):
            (entry,) = entries
            await self._links.store(leased, entry.decision, entry.commands, outcome.document.title)
            return
        if visited.target:  # before its alias, and in the same commit
            entries.insert(0, await self._entry(visited.target[0], source, visited.target[1]))
        await self._buffer.add(*entries)

    async def _entry(self, leased: LeasedItem, source: Source, visited: VisitReport) -> DecidedVisit:
        """What is decided about a visit, and everything that is written of it."""
        outcome = visited.outcome
        around = await self._guard.around(leased.item, outcome)
        policy, chance, now = self._policy(leased, source), random.random(), self._clock.now()
        decision = decide.decide(leased.item, outcome, now, chance, policy, around)
        commands = [*visited.commands, *await self._context.documents.apply(leased, decision, outcome, now)]
        commands += self._guard.consequences(leased.item, source, decision, now)
        return DecidedVisit(leased, outcome, policy, around, chance, decision, commands)

    def _policy(self, leased: LeasedItem, source: Source) -> RecheckPolicy:
        item, policy = leased.item, self._context.recheck_policy
        if item.article_uid:
            # Within its TTL, so that a correction is seen before the article ends (trap T5).
            return policy.capped(self._context.settings.article_ttl_seconds * 3 / 7)
        is_root = source.state.root_id == item.id
        return policy.capped(policy.base_seconds) if is_root else policy

    # ── hosts that did not answer ──

    async def settle_unreached(self) -> None:
        """Hosts that did not answer: a failure each, unless nearly none answered. Then it is us."""
        if self.network.is_down:
            log.error("⚠️ Nearly no host answers: our own network looks down. Nothing is counted against anybody.")
        while self._unreached:
            leased, source, failed = self._unreached.pop()
            if self.network.is_down:
                await self._postpone(leased, OFFLINE)
            else:
                await self._settle(leased, source, VisitReport(Broken(failed)))
        for reason, count in self._postponed.items():
            log.info("⏳ %d put off: %s", count, reason)
        self._postponed.clear()

    def take_unreached(self) -> Sequence[LeasedItem]:
        """Those that are kept to be judged at the end, when there is no such end."""
        held = [leased for leased, _, _ in self._unreached]
        self._unreached.clear()
        return held


def _is_closed(failed: Failed) -> bool:
    return classify.failure(failed).kind is ResponseKind.FORBIDDEN


def _has_feed_text(leased: LeasedItem) -> bool:
    """Is the stored text the feed's own, because the page kept it from us?"""
    article = leased.article
    return article.get("text_source") == "feed" and article.get("status") == "success"


def _says_less(leased: LeasedItem, document: Document | Failed) -> bool:
    """A feed's own text is not replaced by less, nor given up for a page without any."""
    if isinstance(document, Failed):
        return document.code in outcomes.NO_TEXT
    return document.text_len < field_parsing.integer(leased.article.get("text_len"))


def _forbids_index(answer: Fetched) -> bool:
    """The header form of `<meta name="robots" content="noindex">`."""
    words = answer.header("x-robots-tag").lower().replace(",", " ").split()
    return "noindex" in words or "none" in words
