"""Add one URL: as a single page, as an article of a category, or as a page of a domain. A known one is checked now.

The registry or the link set is written first, then a worker is woken; what no job brings the timer or the ingestor
does, so nothing is lost where nobody listens.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from redis.exceptions import RedisError

from core import ids
from core.errors import FreshetError
from core.feeds.category_names import category_slug
from core.feeds.io.link_store import FailedLinks, LinkStore, Ttls
from core.feeds.io.subscriptions import SAMPLE_PREFIX
from core.keys import Keys
from core.models import Failed, Ref, RejectedUrl
from core.net.address_guard import Guard
from core.registry.io.article_store import ArticleStore
from core.registry.io.due import DueItems
from core.registry.io.item_queries import ItemQueries, ResolvedName
from core.registry.io.paused_items import PausedItems
from core.registry.io.registrar import Listing, Registrar, item_id_of, ref_of
from core.registry.record import ARTICLES_SOURCE, URLS_SOURCE, Status, parse_status
from core.runs.io.run_store import RunStore
from core.runtime.job_queues import JobQueues
from core.settings import Settings
from core.sources.io.domain_sources import source_taking
from core.sources.io.source_items import SourceItems
from core.store import connect
from core.store.connect import Client
from core.store.leases import Leases, new_token
from core.urls.secrets import redact
from core.urls.tracking_parameters import tracker_matcher
from core.value_class import value_class

_REASONS = {
    "empty": "it is empty",
    "unparsable": "it cannot be read as a URL",
    "scheme": "only http and https are fetched",
    "credentials": "it holds a user name or password",
    "no_host": "it names no host",
    "too_long": "it is too long",
}


class UrlRefused(FreshetError):
    """A URL is not taken; the message says why."""


@value_class
class AddedUrl:
    """The result of adding a URL."""

    id: str
    """Its item id; `GET /api/items/{id}` shows its record, which an article gets when it is stored."""
    uid: str
    """Its id as a link; `GET /api/articles/{uid}` shows the article once it is stored."""
    url: str
    """As it is fetched: clean."""
    source: str
    """The source that has it now: `urls`, `rss` or one of a domain."""
    status: Status
    """Status of its record; Pending: it was never visited."""
    is_known: bool
    is_queued: bool
    """A job was sent for it."""
    next_step: str
    """What happens next, as a sentence."""


class UrlAdder:
    """Adds URLs for scripts, HTTP and people's own Python."""

    def __init__(self, settings: Settings, client: Client, keys: Keys) -> None:
        self._settings = settings
        self._client = client
        self._keys = keys
        self._guard = Guard.of(settings)
        self._trackers = tracker_matcher(settings.tracking_param_prefixes)
        self._queries = ItemQueries(client, keys, settings.tracking_param_prefixes)
        self._registrar = Registrar(
            client, keys, settings.registry_partition_strategy, settings.tracking_param_prefixes
        )

    async def add(self, url: str, *, category: str = "", domain: str = "", force: bool = False) -> AddedUrl:
        """Add a URL, or check a known one now; with `force` whatever its validators say. Raises UrlRefused."""
        if category and domain:
            raise UrlRefused("A URL is added to a category or to a domain, not to both; leave one of them out.")
        ref = self._checked(url)
        resolved = await self._queries.resolve(ref.address, Path("/"))
        if category:
            return await self._add_link(ref, resolved, category_slug(category), force)
        return await self._add_item(ref, resolved, domain, force)

    def _checked(self, url: str) -> Ref:
        """Return the clean URL; raise UrlRefused where the fetcher would refuse it."""
        ref = ref_of(url.strip(), "url", self._trackers)
        if isinstance(ref, RejectedUrl):
            raise UrlRefused(f"{redact(url.strip())[:200]} is not taken: {_REASONS.get(ref.reason, ref.reason)}.")
        target = self._guard.target(ref.address)
        if isinstance(target, Failed):
            raise UrlRefused(f"{redact(ref.address)[:200]} is not taken. {target.text}")
        return ref

    # ── a page ──

    async def _add_item(self, ref: Ref, resolved: ResolvedName, domain: str, force: bool) -> AddedUrl:
        now, source = await connect.now(self._client), URLS_SOURCE
        known = next(iter(await self._queries.summaries([resolved.item_id] if resolved.item_id else [])), None)
        is_known = known is not None and bool(known.sources)
        item_id = resolved.item_id if known is not None and is_known else item_id_of(ref)
        if domain:
            source = await source_taking(self._settings, self._client, self._keys, domain, ref.address, now)
        if domain or not is_known:
            listing = Listing(source, force=force, token=new_token(), must_exist=bool(domain))
            registered = await self._registrar.register([ref], listing, now)
            if registered.left_out:
                raise UrlRefused(f"{source} has as many pages as it may have; raise its max_pages.")
            if domain:  # else the next crawl would remove what no page links to
                await SourceItems(self._client, self._keys).mark_listed(source, [item_id_of(ref)])
        if is_known:
            source = source if domain else (known.sources[0] if known else source)
            await DueItems(self._client, self._keys).make_due([item_id], now, force=force)
        is_queued = await self._send("workers.jobs.reindex", [item_id], now, id_words=("add", item_id))
        how = "read again, whatever its validators say," if force else "checked" if is_known else "fetched"
        status = parse_status(known.status) if known is not None and is_known else Status.PENDING
        paused = PausedItems(self._queries, await RunStore(self._client, self._keys).blocked())
        await paused.visitable([item_id])
        step = f"It is {how} by the next free worker." if is_queued else f"The timer has it {how} in its next pass."
        step = paused.sentence(None, 1) or step
        return AddedUrl(
            item_id, ids.article_uid(ref.address), ref.address, source, status, is_known, is_queued, step
        )  # fmt: skip

    # ── an article ──

    async def _add_link(self, ref: Ref, resolved: ResolvedName, category: str, force: bool) -> AddedUrl:
        if category.startswith(SAMPLE_PREFIX):
            raise UrlRefused(f"Categories that begin with {SAMPLE_PREFIX} are the sample's; choose another name.")
        now, ttls, uid = await connect.now(self._client), Ttls.of(self._settings), ids.article_uid(ref.address)
        links, articles = LinkStore(self._client, self._keys, ttls), ArticleStore(self._client, self._keys, ttls)
        # An article that is stored enters the category at once; any other link is fetched for it.
        await Leases(self._client, self._keys).run(
            [
                ("SADD", self._keys.categories, category),
                *links.mark_seen([category], [ref.address], now),
                *await articles.renewal([category], [ref.address], now),
            ]
        )
        failed = FailedLinks(self._client, self._keys)
        await failed.retry(await failed.without_article([uid]), now)
        known = next(iter(await self._queries.summaries([resolved.item_id] if resolved.item_id else [])), None)
        if known is not None and known.sources:
            await DueItems(self._client, self._keys).make_due([known.item_id], now, force=force)
            arguments = ([known.item_id], now)
            is_queued = await self._send("workers.jobs.reindex", *arguments, id_words=("add", known.item_id))
            step = "It is in the category now, and is checked by the next free worker."
            return AddedUrl(
                known.item_id, uid, ref.address, ARTICLES_SOURCE, parse_status(known.status), True, is_queued, step
            )
        is_queued = await self._send("workers.jobs.fetch_links", id_words=("links", uid))
        who = "the next free worker" if is_queued else "the ingestor's next cycle"
        step = f"It is fetched by {who} and becomes an article of {category}."
        return AddedUrl(item_id_of(ref), uid, ref.address, ARTICLES_SOURCE, Status.PENDING, False, is_queued, step)

    async def _send(self, function: str, *arguments: list[str] | float, id_words: tuple[str, ...]) -> bool:
        """Send a job, unless the same one waits; False where the queue is not there: the registry says what is due."""

        def send() -> None:
            queues = JobQueues(self._settings)
            try:
                queues.enqueue(function, *arguments, id_words=id_words)
            finally:
                queues.close()

        try:
            await asyncio.to_thread(send)
        except (RedisError, OSError):
            return False
        return True
