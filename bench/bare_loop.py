"""A bare aiohttp loop: the requests of a refresh and nothing else, importing nothing of ours, which would cost it time.

python -m bench.bare_loop FILE    a JSON list of [url, etag]
"""

import asyncio
import json
import sys

import aiohttp

AT_ONCE = 100


async def ask(asked: list[tuple[str, str]]) -> None:
    """Send each request; every answer has to be a 304."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=AT_ONCE)) as session:

        async def follow() -> None:
            while asked:
                url, etag = asked.pop()
                async with session.get(url, headers={"If-None-Match": etag}) as answer:
                    await answer.read()
                    assert answer.status == 304

        await asyncio.gather(*(follow() for _ in range(AT_ONCE)))


if __name__ == "__main__":
    with open(sys.argv[1]) as listed:  # noqa: PTH123 - pathlib is one import more
        asyncio.run(ask(json.load(listed)))
