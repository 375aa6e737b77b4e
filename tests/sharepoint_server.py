"""SharePoint on loopback, to be changed and to be told what goes wrong.

    with SharePointServer() as server:
        server.file("Reports/Q1.docx", b"…")
        server.throttle(on=LISTING, page=2, retry_after=1)
        settings = settings.model_copy(update=server.settings())
        ...
        assert (len(server.listings), len(server.downloads)) == (2, 1)

It speaks the wire of `sample_sharepoint`. Each server has a site with a library `Shared Documents`; `library()`,
`item_list()` and `pages()` make others, and the verbs act on the one made last, or on `at`. Paths are below its root.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from core.secret_text import SecretStr
from sample_sharepoint import columns
from sample_sharepoint.loopback import LoopbackServer
from sample_sharepoint.model import LIBRARY, LIST, SITE_PAGES, Column, Item, ItemList, Reference
from sample_sharepoint.service import SharePointService
from sample_sharepoint.tenant import Tenant
from tests.certificates import CertificateFiles, make_certificate
from tests.sharepoint_faults import COLUMNS, CONTEXT, DELTA, DOWNLOAD, LISTING, TOKEN, Hold, SharePointFaults

__all__ = [
    "COLUMNS",
    "CONTEXT",
    "DELTA",
    "DOWNLOAD",
    "LISTING",
    "TOKEN",
    "CertificateFiles",
    "Column",
    "Hold",
    "Item",
    "ItemList",
    "Reference",
    "SharePointServer",
    "make_certificate",
]

SITE = "/sites/demo"


class SharePointServer(SharePointFaults):
    """See the top of the file."""

    def __init__(self, access_token: str = "") -> None:
        self.tenant = Tenant()
        super().__init__(SharePointService(self.tenant, access_token))
        self._secure: LoopbackServer | None = None
        self._site = self.tenant.add_site(SITE, "Demo")
        self.documents = self.at = self.library("Documents", "Shared Documents")

    def __enter__(self) -> Self:
        self._server = LoopbackServer(self.answer)
        return self

    def __exit__(self, *error: object) -> None:
        self.heal()
        self._server.close()
        if self._secure:
            self._secure.close()

    # ── addresses ──

    @property
    def origin(self) -> str:
        return self._server.origin

    @property
    def site_url(self) -> str:
        """The address of the site named last."""
        return f"{self.origin}{self._site.path}"

    def url(self, path: str) -> str:
        """The address of a server-relative path."""
        return f"{self.origin}{path}"

    def settings(self) -> dict[str, Any]:
        """Changes of the settings that make this server their SharePoint."""
        return {
            "sharepoint_access_token": SecretStr(self.service.access_token or "T"),
            "sharepoint_graph_url": self.origin,
            "fetch_allowed_hosts": ("127.0.0.0/8",),
        }

    def authority_url(self, certificate: Path, key: Path) -> str:
        """Serve the token endpoint over TLS, which MSAL insists on, with this certificate for 127.0.0.1."""
        if self._secure is None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            self._secure = LoopbackServer(self.answer, tls=context)
        return self._secure.origin

    # ── sites, libraries, lists, pages ──

    def site(self, path: str) -> None:
        """A further site; what is made next is in it."""
        self._site = self.tenant.add_site(path)

    def library(self, title: str, path: str, extra: Sequence[Column] = ()) -> ItemList:
        """A library; its title and its path may differ."""
        return self._add(title, path, LIBRARY, [*columns.COMMON, *columns.OF_LIBRARIES, *extra])

    def item_list(self, title: str, extra: Sequence[Column] = ()) -> ItemList:
        """A list with columns of its own."""
        return self._add(title, f"Lists/{title}", LIST, [*columns.COMMON, *columns.OF_LISTS, *extra])

    def pages(self, path: str = "SitePages", *, without: Sequence[str] = ()) -> ItemList:
        """The pages of a site; some sites lack columns that others have."""
        own = [one for one in columns.OF_SITE_PAGES if one.name not in without]
        return self._add("Site Pages", path, SITE_PAGES, [*columns.COMMON, *columns.OF_LIBRARIES, *own])

    def _add(self, title: str, path: str, template: int, own: list[Column]) -> ItemList:
        with self.service.lock:
            self.at = self.tenant.add_list(self._site, title, path, template, own)
            return self.at

    # ── files and folders ──

    def item(self, path: str) -> Item:
        """What is at this path below the root of the library."""
        found = self.tenant.find_path(f"{self.at.root.path}/{path}")
        assert found, f"{path} is not there"
        return found[1]

    def file(self, path: str, content: bytes = b"text", modified: datetime | None = None, **values: Any) -> Item:
        with self.service.lock:
            return self.tenant.add_file(self.at, path, content, modified, **values)

    def update(self, path: str, content: bytes, modified: datetime | None = None) -> Item:
        """New content, and a new time."""
        return self._change(path, content=content, modified=modified or self.tenant.tick())

    def rename(self, path: str, name: str) -> Item:
        """Another name; the time stays, as in SharePoint."""
        return self._place(path, self.item(path).parent, name)

    def move(self, path: str, folder: str, name: str = "") -> Item:
        """Another folder, by another name if one is given; also of a folder with all that is in it."""
        return self._place(path, self.tenant.folder(self.at, folder), name or path.rpartition("/")[2])

    def swap(self, one: str, other: str) -> None:
        """Two files take each other's names."""
        first, second = self.item(one), self.item(other)
        places = (first.parent, first.name), (second.parent, second.name)
        with self.service.lock:
            self.tenant.attach(first, places[0][0], f"{first.name}.swap")
            self.tenant.attach(second, *places[0])
            self.tenant.attach(first, *places[1])
            self._changed(first, second)

    def delete(self, path: str) -> Item:
        """Into the recycle bin; what is returned can be restored."""
        with self.service.lock:
            item = self.item(path)
            self.tenant.remove(self.at, item)
            return item

    def restore(self, item: Item) -> None:
        """Out of the recycle bin: same ids, old time."""
        with self.service.lock:
            self.tenant.restore(self.at, item)

    def roll_back(self, path: str, content: bytes, modified: datetime) -> Item:
        """An older version, with its older time."""
        return self._change(path, content=content, modified=modified)

    def copy(self, path: str, to: str) -> Item:
        """The same content by another path and other ids."""
        return self.file(to, self.item(path).content or b"")

    def replace(self, path: str, content: bytes) -> Item:
        """Delete it, and add another file by its name."""
        self.delete(path)
        return self.file(path, content)

    def check_in(self, path: str) -> Item:
        """Another version of the same content; the time stays."""
        return self._change(path)

    def lock(self, path: str) -> None:
        """423 for everybody who does not ask to bypass the lock."""
        self.item(path).is_locked = True

    def unlock(self, path: str) -> None:
        self.item(path).is_locked = False

    def _place(self, path: str, folder: Item, name: str) -> Item:
        with self.service.lock:
            item = self.item(path)
            self.tenant.attach(item, folder, name)
            self._changed(item)
            return item

    def _change(self, path: str, **values: Any) -> Item:
        with self.service.lock:
            item = self.item(path)
            for name, value in values.items():
                setattr(item, name, value)
            self._changed(item)
            return item

    def _changed(self, *items: Item) -> None:
        for item in items:
            item.version += 1
            self.tenant.touch(item)

    # ── rows and pages ──

    def row(self, modified: datetime | None = None, **values: Any) -> Item:
        """A row of the list; cells by internal name."""
        with self.service.lock:
            return self.tenant.add_row(self.at, values, modified)

    def update_row(self, item: Item, **values: Any) -> None:
        with self.service.lock:
            item.values.update(values)
            item.modified = self.tenant.tick()
            self._changed(item)

    def delete_row(self, item: Item) -> None:
        with self.service.lock:
            self.tenant.remove(self.at, item)

    def page(self, path: str, title: str = "", *, canvas: str = "", wiki: str = "", layout: str = "") -> Item:
        """A page of the site; its text is in one of its columns."""
        values = {"Title": title or path, "CanvasContent1": canvas, "WikiField": wiki, "LayoutWebpartsContent": layout}
        content = b'<%@ Page Language="C#" %>' + (canvas + wiki).encode()
        return self.file(path, content, **{name: text or None for name, text in values.items()})

    def update_page(self, path: str, **values: str) -> Item:
        """Other texts of a page, by the names of their columns, and a new time."""
        item = self.item(path)
        self.update_row(item, **values)
        texts = [item.values.get(name) or "" for name in ("CanvasContent1", "WikiField")]
        item.content = b'<%@ Page Language="C#" %>' + "".join(texts).encode()
        return item

    # ── sites and lists that refuse ──

    def threshold(self, where: ItemList | None = None) -> None:
        """Refuse filters, as for a column without an index in a list of more than 5,000 items."""
        (where or self.at).is_over_threshold = True

    def kill_site(self, status: int = 404, path: str = "") -> None:
        """Answer everything below the site with 404 or 403; 0 brings it back."""
        (self.tenant.sites[path.lower()] if path else self._site).death = status
