"""Read the body of an item in a parse child: an article with its main text, anything else as a document."""

from __future__ import annotations

import asyncio
from pathlib import PurePosixPath
from urllib.parse import unquote

from core import ids
from core.errors import FailCode
from core.models import Document, Failed, Fetched
from core.pages.documents.file_type import FileKind, file_kind
from core.registry import article_fields
from core.registry.io.item_store import LeasedItem
from core.registry.record import Item
from core.runtime.context import Context
from core.runtime.parse_tasks import DocumentRequest, PageRequest, PageResult
from core.store.clock import ServerClock
from core.urls.normalise import split_url
from core.value_class import value_class

LONG = (FileKind.PDF, FileKind.DOCX)
"""Whole books; they may take longer than pages."""


@value_class
class ParsedBody:
    """What was read from a body."""

    document: Document | Failed
    links: tuple[str, ...] = ()
    is_noindex: bool = False
    body_hash: str = ""
    body_bytes: int = 0
    """Of the plain body."""
    unpacking: Failed | None = None
    """Why a packed body could not be unpacked: then the fetch has failed."""


class BodyReader:
    """Reads bodies, as many at once as there are parse children."""

    def __init__(self, context: Context, clock: ServerClock) -> None:
        self._context = context
        self._clock = clock
        self._children = asyncio.Semaphore(context.settings.parse_processes)

    async def read(self, leased: LeasedItem, answer: Fetched, with_links: bool) -> ParsedBody:
        """Return the body as a document, or why it is none.

        The item is marked first: if its body kills the whole process, this item is to blame and no other. The lease of
        a new link has counted that already.
        """
        item = leased.item
        is_marked = not leased.is_first_visit
        kind, task = self._task(leased, answer, with_links)
        async with self._children:
            if is_marked:
                await self._context.leases.count_crash(item.id)
            result: PageResult | Failed = await self._context.pool.run(kind, task)
            if is_marked:
                await self._context.leases.clear_crashes(item.id)
        if isinstance(result, Failed):
            # A body that could not be read has no hash: the next visit reads it again.
            return ParsedBody(result, body_bytes=len(answer.body)) if answer.packing else _of_plain(answer, result)
        document = result.document or result.failed or Failed(FailCode.EMPTY)
        if not answer.packing:
            return _of_plain(answer, document, result.links, result.is_noindex)
        size = (result.body_hash, result.body_bytes)
        return ParsedBody(document, result.links, result.is_noindex, *size, unpacking=result.unpacking)

    def _task(self, leased: LeasedItem, answer: Fetched, with_links: bool) -> tuple[str, PageRequest | DocumentRequest]:
        item, main_text = leased.item, self._context.settings.main_text
        tracking_params = self._context.settings.tracking_param_prefixes
        content_type = answer.header("content-type")
        if leased.is_article:
            entry = leased.link.entry if leased.link else {}
            known = article_fields.known_otherwise(entry, leased.article)
            return "page", PageRequest(
                body=answer.body,
                url=answer.final_url,
                content_type=content_type,
                main_text=main_text,
                feed_html=entry.get("html", ""),
                feed_title=entry.get("title", ""),
                links=with_links,
                tracking_params=tracking_params,
                packing=answer.packing,
                max_bytes=self._context.settings.fetch_max_bytes,
                has_known_date=article_fields.has_known_date(known, self._clock.now()),
            )
        kind = file_kind(answer.body, _file_name(item), content_type)
        return "long_document" if kind in LONG else "document", DocumentRequest(
            body=answer.body,
            name=_file_name(item),
            content_type=content_type,
            url=answer.final_url,
            main_text=main_text,
            links=with_links,
            tracking_params=tracking_params,
        )


def _of_plain(
    answer: Fetched, document: Document | Failed, links: tuple[str, ...] = (), is_noindex: bool = False
) -> ParsedBody:
    return ParsedBody(document, links, is_noindex, ids.body_hash(answer.body), len(answer.body))


def _file_name(item: Item) -> str:
    """Return the name for people: a text without a title is called so."""
    url = split_url(item.fetch_url) if item.type == "url" else None
    return unquote(PurePosixPath(url.path).name) if url else PurePosixPath(item.fetch_url).name
