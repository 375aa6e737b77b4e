"""Share a large backlog of new links with RQ workers on any host.

Links are sent as jobs of some hundred. The sender takes jobs back from the end of the queue and visits their
links itself, while workers take them from the front: without a worker everything is done here, with many nearly nothing
is. Leases and attempts keep a link from being fetched twice, whoever has it (docs/architecture.md#queues).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

from core.registry import field_parsing
from core.runtime.job_queues import JobQueues
from core.settings import Settings
from core.urls.secrets import has_credentials
from core.value_class import value_class

Links = Mapping[str, Sequence[str]]

JOB = "workers.jobs.fetch_link_batch"
LINKS_PER_JOB = 200
"""At 100 ms per page well below a minute of work: little is done again when a worker is killed."""
POLL_SECONDS = 0.5


@value_class
class LinkBatch:
    """The links of one job."""

    links: Links

    @property
    def id_words(self) -> tuple[str, str]:
        """The same links are the same job: a second fetcher sends nothing twice."""
        return "link_batch", hashlib.sha256("\n".join(self.links).encode()).hexdigest()[:16]


class LinkFanout:
    """Sends links as jobs and says which of them are to be visited here."""

    def __init__(self, settings: Settings, links: Links) -> None:
        self._queues = JobQueues(settings)
        # A URL with credentials is stored in no job, and bytes that are no text cannot be.
        sendable = sorted(url for url in links if field_parsing.is_text(url) and not has_credentials(url))
        self._kept = {url: links[url] for url in links.keys() - set(sendable)}
        # Every n-th link: each job has some of every host, so that no job waits for one slow host alone.
        count = -(-len(sendable) // LINKS_PER_JOB)
        stripes = (sendable[start::count] for start in range(count))
        self._batches = [LinkBatch({url: links[url] for url in stripe}) for stripe in stripes]
        self.elsewhere: list[str] = []
        """Links whose jobs others took."""

    async def send(self) -> int:
        """Send all jobs; return how many there are."""
        for batch in self._batches:
            await asyncio.to_thread(self._queues.enqueue, JOB, list(batch.links), id_words=batch.id_words)
        return len(self._batches)

    async def here(self, is_over: Callable[[], bool]) -> AsyncIterator[Links]:
        """Yield the links to visit here, until all jobs are done or the time is over."""
        if self._kept:
            yield self._kept
        taken = []
        for batch in reversed(self._batches):
            if not is_over() and await self._take_back(batch):
                yield batch.links
            else:
                taken.append(batch)
        while taken and not is_over():
            still_taken = []
            for batch in taken:
                if await self._take_back(batch):  # its worker was killed, and it waits again
                    yield batch.links
                elif await asyncio.to_thread(self._queues.is_open, JOB, batch.id_words):
                    still_taken.append(batch)
                else:
                    self.elsewhere += batch.links
            taken = still_taken
            if taken:
                await asyncio.sleep(POLL_SECONDS)
        self.elsewhere += _urls(taken)

    async def close(self) -> None:
        """Close the connections; jobs that were not taken stay in the queue."""
        await asyncio.to_thread(self._queues.close)

    async def _take_back(self, batch: LinkBatch) -> bool:
        return await asyncio.to_thread(self._queues.take_back, JOB, batch.id_words)


def _urls(batches: Iterable[LinkBatch]) -> list[str]:
    return [url for batch in batches for url in batch.links]
