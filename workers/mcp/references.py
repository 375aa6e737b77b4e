"""Translate commands and routes in messages into tool calls: `GET /v2/jobs` is run_status."""

from __future__ import annotations

import re

_TOOLS = {
    r"python -m scripts\.runs (?:list|show\b[ \w]*)|GET /v2/jobs(?:/\S+)?": "run_status",
    r"python -m scripts\.domain list|freshet status|freshet feeds list|GET /v2/domains|GET /api/feeds": "list_sources",
    r"python -m scripts\.why|GET /api/items/why\?url=…": "why",
}
_PATTERNS = [(re.compile(f"`?(?:{pattern})`?"), f"`{tool}`") for pattern, tool in _TOOLS.items()]


def as_tools(text: str) -> str:
    """Return a message with the tools that do what it names commands and routes for."""
    for pattern, tool in _PATTERNS:
        text = pattern.sub(tool, text)
    return text
