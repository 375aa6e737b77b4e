"""Copy events from the stream into the queues of the webhooks that want them.

The stream keeps only the last events, so each webhook's queue holds what a slow receiver has not taken yet. Reading on
and queueing are one step; a second writer of the same events is refused. What was trimmed before it was read is
counted and told as a message of its own. A full queue is not read into: its events stay in the stream while they last.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from core.keys import Keys
from core.outputs.io import webhook_scripts as scripts
from core.outputs.io.event_subjects import EventSubjects, LocatedSubject
from core.outputs.io.webhook_store import WebhookStore
from core.outputs.webhook import Webhook, words
from core.outputs.webhook_message import Message, event_message, gap_message
from core.store.connect import Client
from core.store.event_stream import BATCH_EVENTS, EventStream, StoredEvent, StreamWindow, order
from core.store.packing import packed_json
from core.value_class import value_class

log = logging.getLogger("webhooks")

FULL_PAUSE_SECONDS = 1.0
READ, REPLAY = "read_id", "replay_after"
WRITTEN, FULL = 1, -1


@value_class
class Reader:
    """One webhook that reads on from one id: what is new, or what it is sent once more."""

    webhook: Webhook
    field: str
    """Where the id is stored."""
    after_id: str

    def accepts(self, event: StoredEvent) -> bool:
        """Return whether this event is within what is read, and of a type that is wanted."""
        return self.is_within(event) and self.webhook.filter.wants_type(event.type)

    def is_within(self, event: StoredEvent) -> bool:
        """Return whether the replay goes as far as this event. What is new has no end."""
        return self.field == READ or order(event.id) < order(self.webhook.replay_before)


@value_class
class FillResult:
    filled: frozenset[str] = frozenset()
    """Webhooks whose queue may have got something."""
    has_more: bool = False
    last_id: str = ""
    """The end of the stream; empty: it was not needed."""


class WebhookFiller:
    def __init__(self, client: Client, keys: Keys, most_pending: int) -> None:
        self._client = client
        self._keys = keys
        self._store = WebhookStore(client, keys)
        self._stream = EventStream(client, keys)
        self._subjects = EventSubjects(client, keys)
        self._most_pending = most_pending
        self._full_until: dict[str, float] = {}
        self._known: dict[str, tuple[float, Webhook]] = {}
        """Webhooks as they were read when they were last changed, and how far we have read for them since."""

    async def fill(self, changes: Mapping[str, float], now: float) -> FillResult:
        """Queue the next batch of events for all webhooks; those that stand at the same event are read together.

        `changes` says when each of them was last changed.
        """
        await self._read_webhooks(changes)
        groups: dict[str, list[Reader]] = defaultdict(list)
        for reader in self._readers():
            groups[reader.after_id].append(reader)
        filled: set[str] = set()
        has_more, last_id = False, ""
        for after_id, readers in groups.items():
            window = await self._stream.window(after_id)
            last_id = window.last_id
            written = await self._fill_group(readers, window, now)
            filled |= written
            # The sender waits for the end of a replay, so it is woken at once.
            is_ready = len(window.events) >= BATCH_EVENTS or any(reader.field == REPLAY for reader in readers)
            has_more = has_more or (bool(written) and is_ready)
        return FillResult(frozenset(filled), has_more, last_id)

    async def _read_webhooks(self, changes: Mapping[str, float]) -> None:
        self._known = {name: known for name, known in self._known.items() if changes.get(name) == known[0]}
        missing = [name for name in changes if name not in self._known]
        for webhook in await self._store.read_all(missing) if missing else ():
            self._known[webhook.id] = changes[webhook.id], webhook

    def _readers(self) -> Iterable[Reader]:
        clock = time.monotonic()
        for _, webhook in self._known.values():
            if not webhook.collects or self._full_until.get(webhook.id, 0.0) > clock:
                continue
            yield Reader(webhook, READ, webhook.read_id)
            if webhook.replay_after:
                yield Reader(webhook, REPLAY, webhook.replay_after)

    async def _fill_group(self, readers: Sequence[Reader], window: StreamWindow, now: float) -> set[str]:
        """Queue what these readers want of a window; return the webhooks that got on."""
        wanted = [event for event in window.events if any(reader.accepts(event) for reader in readers)]
        located = dict(zip((event.id for event in wanted), await self._subjects.read(wanted), strict=True))
        found = await self._searched(readers, wanted, located)
        pipe = self._client.pipeline(transaction=False)
        steps = []
        for reader in readers:
            messages = [
                event_message(event.id, event.type, event.fields, located[event.id].subject)
                for event in wanted
                if self._wants(reader, event, located[event.id], found)
            ]
            step = _replay_on(reader, window) if reader.field == REPLAY else _read_on(reader, window, now)
            if step.changes:
                steps.append((reader, step))
                pipe.eval(scripts.FILL, 3, *self._keys_of(reader), *self._words(reader, step, messages))
        replies = await pipe.execute() if steps else []
        return {
            reader.webhook.id
            for (reader, step), reply in zip(steps, replies, strict=True)
            if self._noted(reader, step, reply)
        }

    # ── which events ──

    async def _searched(
        self, readers: Sequence[Reader], events: Sequence[StoredEvent], located: dict[str, LocatedSubject]
    ) -> set[tuple[str, str]]:
        """Return which saved search finds which event, for all that is decided by a text."""
        pairs = {
            (reader.webhook.filter.search, event.id)
            for reader in readers
            for event in events
            if reader.webhook.filter.needs_text(event.type) and self._fits(reader, event, located[event.id])
        }
        ids = list(dict.fromkeys(event_id for _, event_id in pairs))
        texts = dict(zip(ids, await self._subjects.texts([located[name] for name in ids]), strict=True))
        return {(query, event_id) for query, event_id in pairs if texts[event_id].has_all(query)}

    @staticmethod
    def _fits(reader: Reader, event: StoredEvent, located: LocatedSubject) -> bool:
        return reader.accepts(event) and reader.webhook.filter.wants_subject(event.type, located.subject)

    def _wants(self, reader: Reader, event: StoredEvent, located: LocatedSubject, found: set[tuple[str, str]]) -> bool:
        wanted = reader.webhook.filter
        if not self._fits(reader, event, located):
            return False
        return not wanted.needs_text(event.type) or (wanted.search, event.id) in found

    # ── the script ──

    def _keys_of(self, reader: Reader) -> tuple[str, str, str]:
        name, keys = reader.webhook.id, self._keys
        queue = keys.webhook_pending(name) if reader.field == READ else keys.webhook_replay(name)
        return keys.webhook(name), queue, keys.webhooks

    def _words(self, reader: Reader, step: ReadStep, messages: list[Message]) -> list[str | bytes]:
        packed = [(one.event_id, one.type, one.body) for one in (*step.gap, *messages)]
        return [
            *(reader.webhook.id, reader.field, reader.after_id),
            *(packed_json(packed), packed_json(words(step.changes))),
            str(self._most_pending),
        ]

    def _noted(self, reader: Reader, step: ReadStep, reply: int) -> bool:
        """Remember how far we have read; return whether the queue may have got something."""
        name = reader.webhook.id
        if reply == FULL:
            if name not in self._full_until:
                log.warning("🐌 %d events wait, and no more are taken in → %s", self._most_pending, name)
            self._full_until[name] = time.monotonic() + FULL_PAUSE_SECONDS
            return False
        self._full_until.pop(name, None)
        changed_at, webhook = self._known.pop(name, (0.0, reader.webhook))
        if reply == WRITTEN:  # else another process was first, or it was changed: it is read again
            self._known[name] = changed_at, replace(webhook, **step.changes)
            if step.gap:
                log.warning("🕳️ Events after %s were trimmed before they were read → %s", reader.after_id, name)
        return True


@value_class
class ReadStep:
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the webhook with their new values; none: there is nothing to write."""
    gap: tuple[Message, ...] = ()
    """The message about what was trimmed before it was read."""


def _replay_on(reader: Reader, window: StreamWindow) -> ReadStep:
    """Read on in a replay; after its last event it is over."""
    is_over = not window.events or not reader.is_within(window.events[-1])
    return ReadStep({REPLAY: "" if is_over else window.events[-1].id})


def _read_on(reader: Reader, window: StreamWindow, now: float) -> ReadStep:
    """Read on at the end of the stream, and find out whether events before the window are gone."""
    webhook = reader.webhook
    # Fewer events than we have read: someone has deleted the stream, and all that was in it.
    is_new_stream = window.added < webhook.read_count
    read_count = 0 if is_new_stream else webhook.read_count
    lost = max(window.trimmed - read_count, 0)
    if not window.events and not lost and not is_new_stream:
        return ReadStep()
    changes: dict[str, Any] = {
        READ: window.events[-1].id if window.events else webhook.read_id,
        "read_count": read_count + lost + len(window.events),
    }
    if not lost and not is_new_stream:
        return ReadStep(changes)
    changes |= {"gaps": webhook.gaps + 1, "lost_events": webhook.lost_events + lost}
    changes |= {"gap_ts": now, "gap_after": webhook.read_id}
    before_id = window.events[0].id if window.events else window.last_id
    return ReadStep(changes, (gap_message(webhook.read_id, before_id, lost, now),))
