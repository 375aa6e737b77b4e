"""Walk the sitemaps of a site: fetched with validators, parsed in child processes, each once, within limits.

What is unchanged lists nothing: its pages were listed when it was read. Trouble with a sitemap is a note, not an end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from core import ids
from core.models import Deferred, Failed, Fetched, FetchRequest, FetchResult
from core.registry import http_headers, http_status_meanings
from core.registry.http_status_meanings import ResponseKind
from core.registry.record import iso
from core.runtime.parse_pool import ParsePool
from core.sources.sitemap_pages import MAX_BYTES, MOST_LISTED, Listed, SitemapResult, SitemapTask
from core.urls import secrets
from core.urls.normalise import registrable_domain
from core.value_class import value_class

if TYPE_CHECKING:
    from core.net.fetcher import Fetcher

TASK = "sitemap"
MOST_SITEMAPS = 500
DEEPEST = 3
"""An index of indexes of sitemaps."""
REFETCH_SECONDS = 7 * 86_400
"""A sitemap whose index says that it has not moved is fetched this often all the same: indexes forget."""
MOST_NOTES = 5
NOW_SECONDS = 60.0
FUTURE_SECONDS = 14 * 3_600.0
"""A date without a time may be that far ahead and still be today's: UTC+14."""
_ACCEPT = {"Accept": "application/xml, text/xml;q=0.9, */*;q=0.8"}


def lastmod_versions(lastmods: Sequence[float | None], fetched_ts: float) -> tuple[str, ...]:
    """Return what `Ref.version` says of each page of one sitemap, in order; empty for a date that is worth nothing.

    A future date is worth nothing. Where all dates are the moment of the fetch, none is worth anything.
    """
    latest = fetched_ts + FUTURE_SECONDS
    if all(lastmod is None or abs(lastmod - fetched_ts) <= NOW_SECONDS for lastmod in lastmods):
        return ("",) * len(lastmods)
    return tuple("" if lastmod is None or lastmod > latest else iso(lastmod) for lastmod in lastmods)


class SitemapState(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is remembered of one sitemap, as JSON."""

    etag: str = ""
    last_modified: str = ""
    url: str = ""
    """Where the validators came from."""
    body: str = ""
    """The hash of its body."""
    lastmod: str = msgspec.field(default="", name="said")
    """What its index said about it when it was last fetched."""
    asked_ts: float = 0.0
    children: tuple[Listed, ...] = ()

    @property
    def conditional(self) -> dict[str, str]:
        return http_headers.validators(self.etag, self.last_modified)


@value_class
class SitemapStep:
    url: str
    depth: int = 1
    lastmod: str = ""


@dataclass(slots=True)
class SitemapWalk:
    """One walk. `memory` and `notes` grow while `pages` is read, and are whole at its end."""

    fetcher: Fetcher
    pool: ParsePool
    remembered: Mapping[str, str]
    tracking_params: tuple[str, ...]
    clock: Callable[[], float]
    memory: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    _queue: deque[SitemapStep] = field(default_factory=deque)
    _seen: set[str] = field(default_factory=set)

    async def pages(self, first: Sequence[str]) -> AsyncGenerator[tuple[Listed, ...], None]:
        """Yield the pages of each sitemap that changed, one sitemap after the other."""
        self._enqueue([SitemapStep(url) for url in first])
        while self._queue:
            step = self._queue.popleft()
            known = _decode_state(self.remembered.get(step.url))
            state = known
            has_moved = known is None or not step.lastmod or step.lastmod != known.lastmod
            if known is None or has_moved or self.clock() - known.asked_ts >= REFETCH_SECONDS:
                state, pages = await self._fetch(step, known)
                if pages:
                    yield pages
            # After its pages were taken: one that was cut short is read again.
            if state is not None:
                self.memory[step.url] = msgspec.json.encode(state).decode()
                self._enqueue_children(step, state)

    def _enqueue(self, steps: Sequence[SitemapStep]) -> None:
        for step in steps:
            if step.url in self._seen:
                continue
            if len(self._seen) >= MOST_SITEMAPS:
                self._note(f"more than {MOST_SITEMAPS} sitemaps")
                return
            self._seen.add(step.url)
            self._queue.append(step)

    def _enqueue_children(self, step: SitemapStep, state: SitemapState) -> None:
        """Queue the sitemaps of an index, of its own domain only: else anybody could make us ask anybody."""
        homes = {registrable_domain(step.url), registrable_domain(state.url or step.url)}
        own = [child for child in state.children if registrable_domain(child[0]) in homes]
        if len(own) < len(state.children):
            self._note(f"{step.url} names sitemaps of other domains")
        if own and step.depth >= DEEPEST:
            self._note(f"{step.url} is an index more than {DEEPEST} deep")
            return
        versions = lastmod_versions([moment for _, moment in own], state.asked_ts)
        self._enqueue(
            [SitemapStep(url, step.depth + 1, version) for (url, _), version in zip(own, versions, strict=True)]
        )

    async def _fetch(
        self, step: SitemapStep, known: SitemapState | None
    ) -> tuple[SitemapState | None, tuple[Listed, ...]]:
        """Return what to remember of it now, and its pages where they are news."""
        conditional = known.conditional if known else {}
        answer = await self.fetcher.fetch(
            FetchRequest(
                step.url,
                headers=_ACCEPT,
                conditional=conditional,
                conditional_url=known.url if known else "",
                max_bytes=MAX_BYTES,
            )
        )
        if isinstance(answer, Fetched):
            match http_status_meanings.status(answer.status).kind:
                case ResponseKind.UNCHANGED if known and conditional:
                    return msgspec.structs.replace(known, lastmod=step.lastmod, asked_ts=self.clock()), ()
                case ResponseKind.OK:
                    return await self._read(step, known, answer)
                case ResponseKind.MISSING | ResponseKind.GONE:
                    return None, ()
        self._note(f"{step.url}: {_trouble(answer)}")
        return known, ()

    async def _read(
        self, step: SitemapStep, known: SitemapState | None, answer: Fetched
    ) -> tuple[SitemapState | None, tuple[Listed, ...]]:
        state = SitemapState(
            etag=answer.header("etag"),
            last_modified=answer.header("last-modified"),
            url=answer.final_url,
            body=ids.body_hash(answer.body),
            lastmod=step.lastmod,
            asked_ts=self.clock(),
        )
        if known and known.body == state.body:
            return msgspec.structs.replace(state, children=known.children), ()
        task = SitemapTask(answer.body, answer.final_url, answer.header("content-type"), self.tracking_params)
        result: SitemapResult | Failed = await self.pool.run(TASK, task)
        if isinstance(result, Failed):
            self._note(f"{step.url}: {result.text}")
            return known, ()
        if result.is_truncated:
            self._note(f"{step.url} lists more than {MOST_LISTED:,}")
        return msgspec.structs.replace(state, children=result.children[:MOST_SITEMAPS]), result.pages

    def _note(self, text: str) -> None:
        note = secrets.redact(text)
        if len(self.notes) < MOST_NOTES and note not in self.notes:
            self.notes.append(note)


def _decode_state(text: str | None) -> SitemapState | None:
    try:
        return msgspec.json.decode(text, type=SitemapState) if text else None
    except msgspec.MsgspecError:
        return None  # written by another version: then it is read again


def _trouble(answer: FetchResult) -> str:
    match answer:
        case Fetched():
            return f"HTTP {answer.status}"
        case Failed():
            return answer.text
        case Deferred():
            return f"{answer.reason}, wait {answer.wait_seconds:.0f} s"
