"""A store with a newspaper and a folder, and MCP servers on it as an agent's client meets them: real processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from core.runtime.context import Context
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.sources.io.domain_file import parse_domain
from core.sources.io.domain_setup import add_domain
from tests import commands
from tests.faults.process import Worker
from tests.two_category_store import Newspaper
from tests.web import FakeWeb
from workers.mcp.server import build_server
from workers.web.services import ServiceOpener

LONG = "Paragraph of a long text about gauges. " * 100
NOTES = {"weir": "The weir was repaired in spring.", "long": LONG}


@dataclass(frozen=True)
class Desk:
    """A newspaper, and a folder that is the domain `shelf`."""

    paper: Newspaper
    folder: Path
    settings: Settings


async def open_desk(context: Context, web: FakeWeb, folder: Path) -> Desk:
    """Print the paper and crawl the folder."""
    paper = await Newspaper.print(context, web)
    notes = folder / "notes"
    notes.mkdir()
    for name, text in NOTES.items():
        (notes / f"{name}.md").write_text(f"# {name}\n\n{text}\n")
    sources = [{"id": "notes", "path": str(notes)}]
    domain = parse_domain(json.dumps({"id": "shelf", "folder_sources": sources}), str(folder))
    await add_domain(context.settings, context.client, context.keys, domain)
    await crawl_source(context, "shelf.notes", CrawlMode.INCREMENTAL)
    return Desk(paper, notes, context.settings)


def documented_servers() -> list[dict[str, Any]]:
    """What docs/mcp.md tells people to write into the configuration of a client, of each that starts the server."""
    blocks = re.findall(r"```json\n(.*?)```", (commands.ROOT / "docs" / "mcp.md").read_text(), re.S)
    parsed = [json.loads(block) for block in blocks]
    return [one[name]["freshet"] for one in parsed for name in ("mcpServers", "servers") if name in one]


def environment(settings: Settings, **more: str) -> dict[str, str]:
    """The variables of a server of these settings, which embeds nothing and so loads no model."""
    return commands.environment(settings) | {"EMBEDDER": "none", "PYTHONPATH": str(commands.ROOT)} | more


@asynccontextmanager
async def local_agent(settings: Settings) -> AsyncIterator[Client]:
    """The SDK's client on a server in this process, without a transport: what tools answer is the same over every one.

    A task of its own enters and leaves it, as anyio wants; pytest sets fixtures up in one task and down in another.
    """
    opener = ServiceOpener(settings.model_copy(update={"embedder": "none"}), is_web=False)
    is_over, opened = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def hold() -> None:
        async with opener.running(), Client(build_server(opener)) as client:
            opened.set_result(client)
            await is_over.wait()

    task = asyncio.create_task(hold())
    await asyncio.wait((task, opened), return_when=asyncio.FIRST_COMPLETED)
    try:
        yield opened.result()
    finally:
        is_over.set()
        await task


@asynccontextmanager
async def stdio_agent(settings: Settings, log: TextIO, mode: str = "auto", **more: str) -> AsyncIterator[Client]:
    """The SDK's client on a server that it has started as docs/mcp.md says, in a folder that is not the checkout."""
    words = documented_servers()[0]["args"]
    folder = settings.persistent_storage_path
    parameters = StdioServerParameters(
        command=sys.executable, args=words, env=environment(settings, **more), cwd=folder
    )
    async with Client(stdio_client(parameters, log), mode=mode) as client:
        yield client


@asynccontextmanager
async def http_server(settings: Settings, **more: str) -> AsyncIterator[str]:
    """A server on a free port of loopback; yields its URL."""
    command = ("workers.mcp", "--http", "127.0.0.1:0")
    variables = environment(settings, LOG_LEVEL="INFO", **more)
    with Worker(settings.persistent_storage_path, variables.pop("REDIS_URL"), *command, **variables) as worker:
        await worker.until(lambda: "MCP server → " in worker.log)
        found = re.search(r"MCP server → (\S+)", worker.log)
        assert found
        yield found[1]
        assert await worker.stopped() == 0, worker.log
        assert worker.tracebacks == []


@asynccontextmanager
async def http_agent(url: str, mode: str = "auto", **headers: str) -> AsyncIterator[Client]:
    """The SDK's client on a server over HTTP."""
    async with contextlib.AsyncExitStack() as stack:
        session = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=60))
        yield await stack.enter_async_context(Client(streamable_http_client(url, http_client=session), mode=mode))


def text_of(result: CallToolResult) -> str:
    """The readable part of an answer."""
    return "".join(block.text for block in result.content)


async def answer(agent: Client, tool: str, **arguments: Any) -> tuple[dict[str, Any], str]:
    """Both parts of an answer; fails if it is an error. The client checks the first against the tool's schema."""
    result = await agent.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    return result.structured_content, text_of(result)


async def refusal(agent: Client, tool: str, **arguments: Any) -> str:
    """The sentence of an error; fails if it is none."""
    result = await agent.call_tool(tool, arguments)
    assert result.is_error, text_of(result)
    return text_of(result)
