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

import ipaddress
import re
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from pydantic import SecretStr

from sample_sharepoint import columns
from sample_sharepoint.loopback import LoopbackServer, Reply, Request
from sample_sharepoint.model import LIBRARY, LIST, SITE_PAGES, Column, Item, ItemList, Tenant
from sample_sharepoint.odata import ODataError
from sample_sharepoint.rest import error_reply
from sample_sharepoint.service import SharePointService

SITE = "/sites/demo"
LISTING = r"/items$"
DOWNLOAD = r"/\$value$"
COLUMNS = r"/fields$"
CONTEXT = r"/contextinfo$"
DELTA = r"/root/delta$"
TOKEN = r"/oauth2/v2\.0/token$"
THROTTLED = "-2147429894, Microsoft.SharePoint.SPException"


@dataclass
class Fault:
    """Changes answers to requests whose path matches, so many times; with a page, only those of that page."""

    change: Callable[[Reply], Reply]
    on: str = ""
    page: int = 0
    times: int = 1
    after: int = 0
    """Let so many matching requests pass first."""
    seen: int = 0

    def is_met(self, request: Request, page: int) -> bool:
        return bool(re.search(self.on, request.path, re.IGNORECASE)) and self.page in (0, page)


@dataclass
class Hold:
    """Requests wait here until they are released."""

    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        self.released.set()


@dataclass(frozen=True)
class CertificateFiles:
    """A certificate for 127.0.0.1, its key, and its thumbprint as app registrations show it."""

    public: Path
    private: Path
    thumbprint: str


def make_certificate(folder: Path) -> CertificateFiles:
    """Write a self-signed certificate: for TLS on loopback, and as that of an app registration."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(datetime(2020, 1, 1)).not_valid_after(datetime(2100, 1, 1))
    builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    certificate = builder.sign(key, hashes.SHA256())
    files = CertificateFiles(
        folder / "certificate.pem", folder / "key.pem", certificate.fingerprint(hashes.SHA1()).hex().upper()
    )
    files.public.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    files.private.write_bytes(private)
    return files


class SharePointServer:
    """See the top of the file."""

    def __init__(self, access_token: str = "") -> None:
        self.tenant = Tenant()
        self.service = SharePointService(self.tenant, access_token)
        self.requests: list[Request] = []
        self._faults: list[Fault] = []
        self._holds: list[Hold] = []
        self._lock = threading.Lock()
        self._secure: LoopbackServer | None = None
        self._site = self.tenant.add_site(SITE, "Demo")
        self.documents = self.at = self.library("Documents", "Shared Documents")

    def __enter__(self) -> Self:
        self._server = LoopbackServer(self._answer)
        return self

    def __exit__(self, *error: object) -> None:
        for hold in self._holds:
            hold.release()
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
            self._secure = LoopbackServer(self._answer, tls=context)
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

    # ── what goes wrong ──

    def page_size(self, size: int) -> None:
        """No page is longer than this."""
        self.service.rest.largest_page = size

    def throttle(
        self, retry_after: int | datetime | str = 1, *, status: int = 429, on: str = "", page: int = 0, times: int = 1
    ) -> None:
        """429 or 503 with Retry-After in seconds or as a date."""
        text = format_datetime(retry_after.astimezone(UTC), usegmt=True) if isinstance(retry_after, datetime) else ""
        refused = error_reply(ODataError(status, THROTTLED, "The request has been throttled."))
        reply = replace(refused, headers={**refused.headers, "Retry-After": text or str(retry_after)})
        self._fault(lambda _: reply, on, page, times)

    def fail(self, status: int = 500, *, on: str = "", page: int = 0, times: int = 1, after: int = 0) -> None:
        """An error instead of an answer."""
        reply = error_reply(ODataError(status, "-1, Microsoft.SharePoint.SPException", "Something went wrong."))
        self._fault(lambda _: reply, on, page, times, after)

    def drop(self, *, on: str = "", page: int = 0, times: int = 1, after: int = 0) -> None:
        """Close the connection instead of answering."""
        self._fault(lambda _: Reply(is_dropped=True), on, page, times, after)

    def cut(self, at: int = 1, *, on: str = DOWNLOAD, page: int = 0, times: int = 1) -> None:
        """Close the connection after so many bytes of the body."""
        self._fault(lambda reply: replace(reply, cut_at=at), on, page, times)

    def shorten(self, by: int = 1, *, on: str = DOWNLOAD, times: int = 1) -> None:
        """Leave the last bytes of the body out, and say a Content-Length that fits: only the listing knows better."""
        self._fault(lambda reply: replace(reply, body=reply.body[: len(reply.body) - by]), on, 0, times)

    def wrong_length(self, length: int, *, on: str = DOWNLOAD, times: int = 1) -> None:
        """Say another Content-Length than the body has."""
        self._fault(lambda reply: replace(reply, declared_length=length), on, 0, times)

    def hold(self, *, on: str = "", page: int = 0, times: int = 1) -> Hold:
        """Keep requests waiting until they are released; `reached` is set when the first has come."""
        hold = Hold()
        self._holds.append(hold)

        def wait(reply: Reply) -> Reply:
            hold.reached.set()
            hold.released.wait()
            return reply

        self._fault(wait, on, page, times)
        return hold

    def expire_token(self, new_token: str = "") -> None:
        """401 for the next request; with a new token, for all that come with another."""
        if new_token:
            self.service.access_token = new_token
            return
        body = {"error": "invalid_token", "error_description": "Invalid JWT token. The token is expired."}
        self._fault(lambda _: Reply.of_json(body, 401), r"/_api/(?!contextinfo)|/v1\.0/", 0, 1)

    def expire_digest(self) -> None:
        """403 for requests with a digest that was given out before."""
        self.service.digest += 1

    def threshold(self, where: ItemList | None = None) -> None:
        """Refuse filters, as for a column without an index in a list of more than 5,000 items."""
        (where or self.at).is_over_threshold = True

    def kill_site(self, status: int = 404) -> None:
        """Answer everything below the site with 404 or 403; 0 brings it back."""
        self._site.death = status

    def forget_deltas(self) -> None:
        """410 for Graph's links that were given out before."""
        self.service.oldest_delta_token = self.tenant.changes + 1

    def heal(self) -> None:
        """Nothing goes wrong any more."""
        with self._lock:
            self._faults.clear()
        for hold in self._holds:
            hold.release()

    def _fault(self, change: Callable[[Reply], Reply], on: str, page: int, times: int, after: int = 0) -> None:
        with self._lock:
            self._faults.append(Fault(change, on, page, times, after))

    # ── looking back ──

    @property
    def listings(self) -> list[Request]:
        """Requests for a page of items or columns."""
        return self.asked(rf"{LISTING}|{DELTA}|/files$|/folders$")

    @property
    def downloads(self) -> list[Request]:
        return self.asked(DOWNLOAD)

    def asked(self, pattern: str) -> list[Request]:
        """Requests whose path matches."""
        return [one for one in self.requests if re.search(pattern, one.path, re.IGNORECASE)]

    def forget(self) -> None:
        """Count requests from here."""
        with self._lock:
            self.requests.clear()

    # ── answering ──

    def _answer(self, request: Request) -> Reply:
        page = self.service.rest.page_of_link.get(f"{request.origin}{request.target}", 1)
        with self._lock:
            self.requests.append(request)
            fault = self._next_fault(request, page)
        reply = self.service.answer(request)
        return fault.change(reply) if fault else reply

    def _next_fault(self, request: Request, page: int) -> Fault | None:
        for fault in self._faults:
            if fault.times and fault.is_met(request, page):
                fault.seen += 1
                if fault.seen > fault.after:
                    fault.times -= 1
                    return fault
        return None
