"""A web on loopback for benchmarks: feeds, pages and robots.txt, made from their addresses and from nothing else.

    /feed/<n>?links=<m>   a feed of m links to pages of its host, the same at every call
    /p<n>, /page/<n>      an article; `--real` takes the bodies of the article corpus beside the checkout

Whoever sends an ETag gets 304, unless it is `"old"`: the store decides what has changed.

    python -m bench.web [--hosts N] [--real]
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import re
import sys

from bench.articles import bodies
from bench.harness import addresses

ETAG, OLD_ETAG = '"same"', '"old"'
_NUMBER = re.compile(rb"/p?(\d+)(?:\?links=(\d+))?")
_ASKED = re.compile(rb"\r\nif-none-match: ([^\r]+)", re.I)
SENTENCE = "The river rose a hand overnight and fell again by noon, the warden of the lower lock said on story {n}. "


def feed_body(host: str, number: int, links: int) -> bytes:
    """An RSS feed whose links no other feed has."""
    item = "<item><title>Story {0}</title><link>http://{1}/page/{0}</link></item>"
    items = "".join(item.format(number * links + place, host) for place in range(links))
    return f"<rss version='2.0'><channel><title>Feed {number}</title>{items}</channel></rss>".encode()


def page_body(number: int) -> bytes:
    """A small article, another text for each number."""
    text = SENTENCE.format(n=number) * 6
    return f"<html lang=en><title>Story {number}</title><article>{f'<p>{text}</p>' * 8}</article></html>".encode()


class Web:
    """Answers requests."""

    def __init__(self, pages: list[bytes]) -> None:
        self._pages = pages

    def reply(self, head: bytes) -> bytes:
        """The response to one request."""
        path = head.split(b" ", 2)[1]
        found = _NUMBER.search(path)
        if found is None:
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        asked = _ASKED.search(head)
        if asked and asked[1] != OLD_ETAG.encode():
            return f"HTTP/1.1 304 Not Modified\r\nETag: {ETAG}\r\n\r\n".encode()
        number, kind, coding = int(found[1]), b"text/html; charset=utf-8", b""
        if path.startswith(b"/feed/"):
            host = re.search(rb"\r\nhost: ([^\r]+)", head, re.I)[1].decode()
            body, kind = feed_body(host, number, int(found[2] or 1)), b"application/rss+xml"
        elif self._pages:
            mark = f"<p>This is copy number {number} of a page that was served for a measurement.</p>".encode()
            body, coding = (
                gzip.compress(self._pages[number % len(self._pages)] + mark, 1),
                b"Content-Encoding: gzip\r\n",
            )
        else:
            body = page_body(number)
        headers = b"Content-Type: %b\r\nETag: %b\r\n%bContent-Length: %d" % (kind, ETAG.encode(), coding, len(body))
        return b"HTTP/1.1 200 OK\r\n%b\r\n\r\n%b" % (headers, body)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection until it is closed."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                writer.write(self.reply(head))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has gone
        finally:
            writer.close()


async def serve(hosts: list[str], pages: list[bytes]) -> None:
    """Serve until the input ends."""
    server = await asyncio.start_server(Web(pages).answer, hosts, 0, backlog=1024)
    print(json.dumps({sock.getsockname()[0]: sock.getsockname()[1] for sock in server.sockets}), flush=True)
    await asyncio.to_thread(sys.stdin.readline)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--real", action="store_true", help="pages of the article corpus")
    given = parser.parse_args()
    asyncio.run(serve(addresses(given.hosts), bodies() if given.real else []))


if __name__ == "__main__":
    main()
