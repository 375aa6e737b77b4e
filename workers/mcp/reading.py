"""The tools that only read: search, get_article, articles, why, list_sources. They call the HTTP API's handlers."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from core.errors import NotFound
from core.search.io.stored_texts import StoredTextReader
from core.urls.secrets import redact
from workers.mcp.models import FeedSummary, ReadTextRequest, SourcesAnswer, SourcesRequest, TextPart
from workers.web.errors import ApiError
from workers.web.models import NoParameters
from workers.web.routes.categories import list_categories
from workers.web.routes.domains import list_domains
from workers.web.routes.feeds import FeedsRequest, list_feeds
from workers.web.routing import StoreCall


async def read_text(call: StoreCall, asked: ReadTextRequest) -> TextPart:
    reader = StoredTextReader(call.client, call.keys)
    found = await reader.find(asked.name.strip(), Path("/"), call.settings.tracking_param_prefixes)
    if found is None:
        name = redact(asked.name)[:200]
        raise NotFound(f"There is no text of {name}. Find it with `search`, or ask `why` what became of its URL.")
    text = found.markdown if asked.format == "markdown" and found.markdown else found.text
    if asked.offset and asked.offset >= len(text):
        message = f"The text has {len(text)} characters; offset {asked.offset} is behind its end."
        raise ApiError(422, "invalid", message, "Begin at 0, or at the `next_offset` of the part before.")
    end = asked.offset + asked.max_characters
    part = {
        "text": text[asked.offset : end],
        "offset": asked.offset,
        "next_offset": end if end < len(text) else None,
        "total_characters": len(text),
    }
    return TextPart.model_validate(asdict(found) | part)


async def list_sources(call: StoreCall, asked: SourcesRequest) -> SourcesAnswer:
    wanted = FeedsRequest(category=asked.category, limit=asked.limit, offset=asked.offset)
    feeds = await list_feeds(call, wanted)
    return SourcesAnswer(
        categories=(await list_categories(call, NoParameters())).categories,
        domains=(await list_domains(call, NoParameters())).domains,
        feeds=[FeedSummary.model_validate(feed.model_dump()) for feed in feeds.feeds],
        feeds_total=feeds.total,
    )
