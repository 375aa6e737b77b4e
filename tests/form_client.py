"""A person without JavaScript: keeps cookies, follows redirects, fills in the forms of the dashboard."""

from __future__ import annotations

import re
from typing import Any, Self

import aiohttp

from tests.api import ApiServer

PAGE = {"Accept": "text/html"}


class FormClient:
    """A client that keeps cookies, follows redirects and fills in forms."""

    def __init__(self, api: ApiServer) -> None:
        self._url = api.url
        self._session = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True), headers=PAGE)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def ask(self, method: str, path: str, **options: Any) -> tuple[int, str, str]:
        """Return status, path at the end, and text."""
        async with self._session.request(method, f"{self._url}{path}", **options) as reply:
            return reply.status, reply.url.path_qs, await reply.text()

    async def submit(self, page: str, path: str, **fields: str) -> tuple[int, str, str]:
        """Submit a form of a page, with its token."""
        _, _, text = await self.ask("GET", page)
        token = re.search(r'name="csrf" value="([^"]+)"', text)
        return await self.ask("POST", path, data={"csrf": token[1], **fields})

    def cookies(self) -> dict[str, Any]:
        return {cookie.key: cookie for cookie in self._session.cookie_jar}
