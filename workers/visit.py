"""Visit items: lease, fetch, read, decide, apply. The only place where these meet.

A batch at a time, each domain in its lane. Whatever stops us in between gives the items back as they were.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from redis.exceptions import RedisError

from core import canonical, decide, ids, outcomes, urls
from core.decide import Policy
from core.errors import FailCode, FailDetail
from core.extract import EXTRACTOR_VERSION
from core.models import Deferred, Document, Failed, Fetched, FetchResult, Ref
from core.net.room import Room
from core.network import NetworkHealth
from core.outcomes import Broken, Changed, Excluded, Moved, Outcome, Parked, Unchanged
from core.registry import Item, PageVisit
from core.stores.clock import ServerClock
from core.stores.commit import Answer, Command, Work
from core.stores.items import Leased
from core.stores.registering import item_id_of
from workers import lanes, stopping
from workers.book import Book, OpenSource
from workers.desk import Desk, lane_of
from workers.following import Following
from workers.judgement import Judgement
from workers.ledger import Entry, Ledger, Progress
from workers.moving import Moving, Visited, named
from workers.reading import Read, Reader

log = logging.getLogger("refresh")

MOST_DEATHS = 3
GONE_ARTICLE_SECONDS = 86_400.0


class Visitor:
    """Visits items for one run or one job."""

    def __init__(
        self,
        desk: Desk,
        clock: ServerClock,
        book: Book,
        *,
        run_id: str = "",
        watch: Callable[[Progress], None] | None = None,
    ) -> None:
        self._desk = desk
        self._clock = clock
        self._book = book
        self._reader = Reader(desk)
        self._ledger = Ledger(desk, clock, run_id, watch)
        self._following = Following(desk, book, clock)
        self._judgement = Judgement(desk, book, clock)
        self._moving = Moving(desk, clock, self._following, self._settle, self._visit_now)
        self._unreached: list[tuple[Leased, OpenSource, Failed]] = []
        self._held: Mapping[str, Leased] = {}
        self.network = NetworkHealth()

    @property
    def held(self) -> list[Item]:
        """Items that are leased and whose visit has not come to its end."""
        return [one.item for one in self._held.values()]

    @property
    def decided(self) -> int:
        """How many visits have come to their end, written or not yet."""
        return self._ledger.decided

    @property
    def counts(self) -> Counter[str]:
        """How the visits so far ended."""
        return self._ledger.counts

    async def visit_many(
        self,
        item_ids: Sequence[str],
        *,
        picked_ts: float | None = None,
        via: str = "",
        is_over: Callable[[], bool] = lambda: False,
    ) -> int:
        """Visit those that nobody else visits, and that nobody has visited since `picked_ts`; how many these were."""
        leased = await self._desk.items.lease(self._desk.leases, item_ids, self._clock.now(), via)
        waiting = self._held = {one.item.id: one for one in leased}
        try:
            await self._pass_over(waiting, picked_ts)
            wanted = len(waiting)

            async def visit(one: Leased) -> None:
                await self._visit(one)
                waiting.pop(one.item.id, None)

            settings = self._desk.settings
            by_domain = lanes.by_lane(list(waiting.values()), _lane)
            should_stop = lambda: self.network.should_stop or is_over()  # noqa: E731
            await lanes.drive(by_domain, visit, settings.lane_width, should_stop, settings.visits_at_once)
            await self._settle_unreached()
            await self._ledger.flush()
        except BaseException:
            await self._ledger.close()
            held = [one for one, _, _ in self._unreached] + list(waiting.values())
            self._unreached.clear()
            await stopping.finish(self._give_back(held))
            raise
        finally:
            self._held = {}
        await self._come_back_for(list(waiting.values()))
        return wanted - len(waiting)

    async def _pass_over(self, waiting: dict[str, Leased], picked_ts: float | None) -> None:
        """A job that was late, or sent twice: what was visited since it was made is left alone."""
        if picked_ts is None:
            return
        now = self._clock.now()
        done = [one for one in waiting.values() if _is_done(one.item, picked_ts, now)]
        works = [self._passed(one) for one in done]
        for one, answer in zip(done, await self._desk.leases.commit_many(works) if works else (), strict=True):
            if answer is not Answer.MOVED_ON:  # forced in this very moment: it is visited after all, without validators
                del waiting[one.item.id]
            else:
                waiting[one.item.id] = replace(one, item=replace(one.item, generation=one.item.generation + 1))

    def _passed(self, one: Leased) -> Work:
        item = one.item
        expected = (self._desk.keys.item(item.id), "reindexGeneration", str(item.generation))
        return Work(one.lease, self._desk.items.put_off(item, item.next_ts), expected)

    async def _come_back_for(self, left: Sequence[Leased]) -> None:
        """The time was over before their turn: due now, for whoever comes next."""
        now = self._clock.now()
        works = [Work(one.lease, self._desk.items.put_off(one.item, now)) for one in left]
        if works:
            await self._desk.leases.commit_many(works)

    async def _give_back(self, held: Sequence[Leased]) -> None:
        """Broken off: due at once, for whoever comes next; with the server away their leases end by themselves."""
        try:
            await self._come_back_for(held)
        except (RedisError, OSError):
            await self._desk.leases.release_many([one.lease for one in held])

    # ── one visit ──

    async def _visit(self, leased: Leased) -> None:
        item = leased.item
        found = await self._book.of(item)
        if found is None or self._has_ended(leased):
            await self._let_rest(leased)
            return
        if leased.deaths >= MOST_DEATHS:  # a force has begun the count anew
            await self._settle(leased, found, Visited(Parked(leased.deaths)))
            return
        if item.alias_of and not item.is_forced and await self._moving.is_still_alias(leased, found):
            return
        conditional = self._conditional(leased)
        async with Room(self._desk.rooms) as room:
            answer = await found.source.fetch(item, conditional, room)
            if isinstance(answer, Fetched) and answer.status == 304 and not (conditional and item.has_text):
                # Some caches answer so unasked: once more, and without them.
                answer = await found.source.fetch(replace(item, generation=item.processed_generation + 1), {}, room)
            if isinstance(answer, Deferred):
                await self._put_off(leased, answer)
                return
            if isinstance(answer, Failed) and canonical.is_connect_failure(answer):
                self.network.record(urls.host_of(item.fetch_url), was_reached=False)
                self._unreached.append((leased, found, answer))
                return
            self.network.record(urls.host_of(item.fetch_url), was_reached=True)
            visited = await self._understand(leased, found, answer, bool(conditional))
        if visited is not None:
            await self._settle(leased, found, visited)

    async def _visit_now(self, leased: Leased) -> None:
        await self._visit(leased)
        await self._ledger.flush()

    def _has_ended(self, leased: Leased) -> bool:
        """An article whose life is over is not fetched again; its record waits for its own end."""
        return bool(leased.item.article_uid) and not leased.article and len(leased.item.sources) == 1

    async def _let_rest(self, leased: Leased) -> None:
        due: list[Command] = [("ZREM", self._desk.keys.due(source), leased.item.id) for source in leased.item.sources]
        unlocked: Command = ("HSET", self._desk.keys.item(leased.item.id), "lockedUntil", "", "nextCrawlAt", "")
        await self._desk.leases.commit_many([Work(leased.lease, [*due, unlocked])])

    def _conditional(self, leased: Leased) -> Mapping[str, str]:
        item, settings = leased.item, self._desk.settings
        is_wanted = decide.should_ask_conditionally(
            item,
            extractor_version=EXTRACTOR_VERSION,
            has_snapshot=leased.has_snapshot,
            is_trusted=leased.is_trusted,
            audit_every=settings.audit_every_checks,
        )
        return item.validators if is_wanted else {}

    async def _put_off(self, leased: Leased, answer: Deferred) -> None:
        log.info("⏳ %s, not before %.0f s → %s", answer.reason, answer.wait_seconds, leased.item.fetch_url)
        until = self._clock.now() + max(answer.wait_seconds, 1.0)
        await self._desk.leases.commit_many([Work(leased.lease, self._desk.items.put_off(leased.item, until))])

    # ── what it means ──

    async def _understand(
        self, leased: Leased, found: OpenSource, answer: FetchResult, was_conditional: bool
    ) -> Visited | None:
        """The meaning of an answer; None if it was the meaning of another item too, and both are settled."""
        assert not isinstance(answer, Deferred)
        item = leased.item
        outcome = outcomes.of_answer(item, answer, was_conditional, self._clock.now())
        if isinstance(outcome, Unchanged) and item.extractor_version != EXTRACTOR_VERSION:
            kept = await self._desk.documents.read_snapshot(item)
            if kept is None:  # it has just ended: the page itself, then
                return Visited(Broken(Failed(FailCode.HTTP, FailDetail.PROTOCOL, "The snapshot is gone.")))
            return await self._read(leased, found, kept, is_from_snapshot=True)
        if (
            isinstance(outcome, Unchanged)
            and isinstance(answer, Fetched)
            and await self._moving.has_real_name(leased, found)
        ):
            target = item_id_of(Ref(item.canonical_url))
            return Visited(Moved(target, outcomes.facts(item, answer, named(item), "", item.source)))
        if outcome is not None or not isinstance(answer, Fetched):
            assert outcome is not None
            return Visited(await self._with_hash(item, found, answer, outcome))
        body_hash = ids.body_hash(answer.body)
        if self._is_same_body(item, answer, body_hash):
            return Visited(Unchanged(answer.status, answer.header("etag"), answer.header("last-modified")))
        return await self._read(leased, found, answer)

    async def _with_hash(self, item: Item, found: OpenSource, answer: Fetched | Failed, outcome: Outcome) -> Outcome:
        """A file too large to be read is hashed as a stream, if its metadata has changed since (spec 000 §5)."""
        is_large = isinstance(answer, Failed) and answer.detail is FailDetail.TOO_LARGE
        if not is_large or not isinstance(outcome, Excluded):
            return outcome
        if item.content_hash and item.listed_version == item.visited_version and not item.is_forced:
            return replace(outcome, content_hash=item.content_hash)
        return replace(outcome, content_hash=await found.source.hash_of(item) or "")

    def _is_same_body(self, item: Item, answer: Fetched, body_hash: str) -> bool:
        if answer.final_url != item.validators_url:
            return False  # the same bytes from elsewhere: the page may have another name now
        is_same = item.has_text and item.body_hash == body_hash and item.extractor_version == EXTRACTOR_VERSION
        return is_same and not item.is_forced

    async def _read(
        self, leased: Leased, found: OpenSource, answer: Fetched, *, is_from_snapshot: bool = False
    ) -> Visited | None:
        item = leased.item
        read = await self._reader.read(item, answer, found.follows_links)
        followed = await self._following.follow(item, read.links, found)
        if read.is_noindex or _forbids_index(answer):
            why = "The page asks not to be indexed (noindex)."
            return Visited(Excluded(why, http_status=answer.status, is_withdrawn=True), followed)
        visit = self._facts(item, answer, read)
        outcome = self._outcome(leased, visit, read)
        commands = [*followed, *(() if is_from_snapshot else self._desk.documents.snapshot(item, answer))]
        # A snapshot has forgotten which redirects led to it; an article stays one for its life.
        may_move = found.follows_links and not is_from_snapshot and not leased.article
        if may_move and isinstance(outcome, Changed | Unchanged):
            moved = await self._moving.alias(leased, found, answer, visit, read, commands)
            if moved:
                return moved if isinstance(moved, Visited) else None
        if isinstance(outcome, Unchanged) and isinstance(read.document, Document):
            # The text is the same, its pictures need not be.
            commands += await self._desk.documents.replace_images(item, read.document, self._clock.now())
        if isinstance(outcome, Changed) and self._is_audit(leased):
            await self._judgement.check_304(leased, found, item.validators)
        return Visited(outcome, commands)

    def _facts(self, item: Item, answer: Fetched, read: Read) -> PageVisit:
        return outcomes.facts(item, answer, read.document, ids.body_hash(answer.body), item.source)

    def _outcome(self, leased: Leased, visit: PageVisit, read: Read) -> Outcome:
        item, document = leased.item, read.document
        if isinstance(document, Document) and _says_less(leased, document):
            return Unchanged(visit.http_status)
        return outcomes.of_document(
            item,
            visit,
            document,
            extractor_version=EXTRACTOR_VERSION,
            force_on_canonical=self._desk.settings.force_reindex_on_canonical_change,
        )

    def _is_audit(self, leased: Leased) -> bool:
        item = leased.item
        return item.conditional_streak >= self._desk.settings.audit_every_checks - 1 and bool(item.validators)

    # ── the end of a visit ──

    async def _settle(self, leased: Leased, found: OpenSource, visited: Visited) -> None:
        outcome = visited.outcome
        around = await self._judgement.around(leased.item, outcome)
        policy, chance, now = self._policy(leased, found), random.random(), self._clock.now()
        decision = decide.decide(leased.item, outcome, now, chance, policy, around)
        commands = [*visited.commands, *await self._desk.documents.apply(leased, decision, outcome, now)]
        commands += self._judgement.consequences(leased.item, found, decision, now)
        await self._ledger.add(Entry(leased, outcome, policy, around, chance, decision, commands))

    def _policy(self, leased: Leased, found: OpenSource) -> Policy:
        item, policy = leased.item, self._desk.decide_policy
        if item.article_uid:
            # Within its life, so that a correction is seen before the article ends (trap T5).
            return policy.capped(self._desk.settings.article_ttl_seconds * 3 / 7)
        is_root = found.state is not None and found.state.root_id == item.id
        return policy.capped(policy.base_seconds) if is_root else policy

    async def _settle_unreached(self) -> None:
        """Hosts that did not answer: a failure each, unless nearly none answered. Then it is us."""
        if self.network.is_down:
            log.error("⚠️ Nearly no host answers: our own network looks down. Nothing is counted against the items.")
        while self._unreached:
            leased, found, failed = self._unreached.pop()
            if self.network.is_down:
                await self._put_off(leased, Deferred(60.0, "our own network looked down"))
            else:
                await self._settle(leased, found, Visited(Broken(failed)))


def _is_done(item: Item, picked_ts: float, now: float) -> bool:
    """Was it visited since it was picked, and has nobody asked for it and nothing moved since that visit?"""
    is_awaited = item.next_ts is not None and item.next_ts <= now
    has_moved = item.listed_version != item.visited_version and not item.failures and not item.missing_checks
    return item.checked_ts >= picked_ts and not (item.is_forced or is_awaited or has_moved)


def _says_less(leased: Leased, document: Document) -> bool:
    """A feed's own text, stored because the page kept it from us, is not replaced by less."""
    article = leased.article
    is_feed_text = article.get("text_source") == "feed" and article.get("status") == "success"
    return is_feed_text and document.text_len < int(article.get("text_len") or 0)


def _forbids_index(answer: Fetched) -> bool:
    """The header form of `<meta name="robots" content="noindex">`."""
    words = answer.header("x-robots-tag").lower().replace(",", " ").split()
    return "noindex" in words or "none" in words


def _lane(leased: Leased) -> str:
    address = leased.item.fetch_url
    return lane_of(address) if address.startswith("http") else "file"
