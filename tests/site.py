"""A documentation site on loopback for tests: pages with links, validators that work, and verbs to change them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from tests.web import FakeWeb
from tests.web_replies import Document, raw

FILLER = "The gauge reads the height of the river every ten minutes and sends it to the office down the valley. " * 3


def html(title: str, text: str, links: Iterable[str] = (), head: str = "") -> str:
    """A page with a main text and a menu."""
    menu = "".join(f'<li><a href="{link}">{link}</a></li>' for link in links)
    return (
        f"<!doctype html><html lang=en><head><title>{title}</title>{head}</head><body><nav><ul>{menu}</ul></nav>"
        f"<main><h1>{title}</h1><p>{text}</p><p>{FILLER}</p></main></body></html>"
    )


class Site:
    """Pages by path; each has an ETag of its content and answers 304 to it."""

    def __init__(self, web: FakeWeb) -> None:
        self.web = web
        self._etags: dict[str, str] = {}

    def page(self, path: str, text: str = "", links: Iterable[str] = (), head: str = "") -> None:
        """A page, or another version of it."""
        body = html(path.strip("/") or "Home", text or f"This is {path}.", links, head)
        etag = f'"{hashlib.sha256(body.encode()).hexdigest()[:12]}"'
        self._etags[path] = etag
        self.web.on(path, Document(raw(body), etag=etag))

    def three_pages(self) -> None:
        """A root and the two pages that it links to."""
        self.page("/", links=["/a", "/b"])
        self.page("/a")
        self.page("/b")

    def etag(self, path: str) -> str:
        """The validator of a page as it is served now."""
        return self._etags[path]

    def remove(self, path: str, status: int = 404) -> None:
        """No such page any more."""
        self.web.on(path, status)

    def url(self, path: str = "/") -> str:
        """A page's address."""
        return self.web.url(path)

    def forget_requests(self) -> None:
        """Count anew."""
        self.web.requests.clear()
