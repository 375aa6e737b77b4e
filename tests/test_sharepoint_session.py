"""The token of SharePoint goes to its server alone, and no answer of that server does harm."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from core.secret_text import SecretStr
from core.settings import Settings
from core.sources.sharepoint.io import sharepoint_session, throttle_gate
from core.sources.sharepoint.io.sharepoint_client import SharePointSite
from core.sources.sharepoint.io.throttle_gate import ThrottleGate, backoff_seconds, gate_of
from core.sources.sharepoint.remote_items import SharePointStopped, SharePointUnavailable
from sample_sharepoint.loopback import LoopbackServer, Reply, Request
from tests.sharepoint_server import LISTING, SharePointServer

DIGEST = {"d": {"GetContextWebInformation": {"FormDigestValue": "0x1,date", "FormDigestTimeoutSeconds": 1800}}}
JSON = "application/json;odata=verbose"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits for what it does not test."""
    monkeypatch.setattr(throttle_gate, "FIRST_BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr(throttle_gate, "_gates", {})


class Recorder:
    """A server that answers what it is told, and remembers what it was asked."""

    def __init__(self, answer: Callable[[Request], Reply]) -> None:
        self.requests: list[Request] = []
        self._answer = answer
        self.server = LoopbackServer(self.answer)
        self.origin = self.server.origin

    def answer(self, request: Request) -> Reply:
        self.requests.append(request)
        is_digest = request.path.endswith("contextInfo")
        return Reply.of_json(DIGEST) if is_digest else self._answer(request)


@contextmanager
def serve(answer: Callable[[Request], Reply]) -> Iterator[Recorder]:
    recorder = Recorder(answer)
    try:
        yield recorder
    finally:
        recorder.server.close()


@pytest.fixture
def loopback(settings: Settings) -> Settings:
    changes = {"sharepoint_access_token": SecretStr("T"), "fetch_allowed_hosts": ("127.0.0.0/8",)}
    return settings.model_copy(update=changes)


def page_of(*ids: int, link: str = "") -> Reply:
    rows = [
        {
            "ID": number,
            "FSObjType": 0,
            "File": {
                "UniqueId": f"{number:08}-0000-0000-0000-000000000000",
                "Name": f"{number}.txt",
                "Length": "1",
                "ServerRelativeUrl": f"/Docs/{number}.txt",
                "TimeLastModified": "2024-01-15T10:30:00Z",
            },
        }
        for number in ids
    ]
    return Reply.of_json({"d": {"results": rows, **({"__next": link} if link else {})}})


def listed(settings: Settings, origin: str) -> list[str]:
    site = SharePointSite.open(settings, origin)
    try:
        return [item.row.filename for page in site.library("/Docs") for item in page]
    finally:
        site.close()


# ── where requests may go ──


def test_next_page_on_another_server(loopback: Settings) -> None:
    """A link to the next page on another server is refused, and that server never sees the token."""
    with serve(lambda _: page_of(2)) as other, serve(lambda _: page_of(1, link=f"{other.origin}/items")) as server:
        with pytest.raises(SharePointUnavailable, match="another server"):
            listed(loopback, server.origin)
        assert not other.requests


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirect_to_another_server(loopback: Settings, status: int) -> None:
    """A redirect to another server is not followed, and that server never sees the token."""
    with serve(lambda _: page_of(1)) as other:
        location = {"Location": f"{other.origin}/items"}
        refused = pytest.raises(SharePointUnavailable, match="another server")
        with serve(lambda _: Reply(status, b"", location)) as server, refused:
            listed(loopback, server.origin)
        assert not other.requests


def test_redirect_on_the_same_server(loopback: Settings) -> None:
    """A redirect that stays on the server is followed; one in circles ends with a sentence."""
    here = {"Location": "/moved/items"}

    with serve(lambda one: page_of(1) if one.path == "/moved/items" else Reply(302, b"", here)) as server:
        assert listed(loopback, server.origin) == ["1.txt"]
    with serve(lambda _: Reply(302, b"", here)) as server, pytest.raises(SharePointUnavailable, match="site_url"):
        listed(loopback, server.origin)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "2130706433", "127.1"])
def test_private_addresses_need_permission(settings: Settings, host: str) -> None:
    """No spelling of a private address is asked unless FETCH_ALLOWED_HOSTS names it."""
    with serve(lambda _: page_of(1)) as server:
        port = server.origin.rpartition(":")[2]
        changes = {"sharepoint_access_token": SecretStr("T"), "fetch_allowed_hosts": (), "fetch_allowed_ports": (port,)}
        with pytest.raises(SharePointUnavailable, match="FETCH_ALLOWED_HOSTS"):
            listed(settings.model_copy(update=changes), f"http://{host}:{port}")
        assert not server.requests


def test_name_that_changes_its_address(loopback: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address that is connected to is the one that is checked: a name may answer as it likes."""
    real = socket.getaddrinfo

    def lie(host: str, *rest: Any, **named: Any) -> Any:
        return real("127.0.0.1" if host == "contoso.sharepoint.com" else host, *rest, **named)

    monkeypatch.setattr(socket, "getaddrinfo", lie)
    with serve(lambda _: page_of(1)) as server:
        port = server.origin.rpartition(":")[2]
        origin = f"http://contoso.sharepoint.com:{port}"
        by_name = loopback.model_copy(update={"fetch_allowed_hosts": ("contoso.sharepoint.com",)})
        nobody = loopback.model_copy(update={"fetch_allowed_hosts": (), "fetch_allowed_ports": (port,)})

        with pytest.raises(SharePointUnavailable, match=r"contoso\.sharepoint\.com is not in the public internet"):
            listed(nobody, origin)
        assert not server.requests
        assert listed(by_name, origin) == ["1.txt"]


def test_proxy_of_the_settings(loopback: Settings) -> None:
    """FETCH_PROXY_URL is where requests go; the proxy connects."""
    with serve(lambda _: page_of(1)) as proxy:
        changed = loopback.model_copy(update={"fetch_proxy_url": SecretStr(proxy.origin)})

        assert listed(changed, "http://contoso.sharepoint.com") == ["1.txt"]
        assert proxy.requests[0].target == "http://contoso.sharepoint.com/_api/contextInfo"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "contoso",
        "ftp://contoso.sharepoint.com/x",
        "https://user:pass@contoso.sharepoint.com",
        "https://[::1",
        "https://x:0",
    ],
)
def test_what_is_no_site(loopback: Settings, url: str) -> None:
    """What is not the address of a site is refused before anything is asked."""
    with pytest.raises(SharePointUnavailable, match="site_url"):
        SharePointSite.open(loopback, url)


# ── answers that do harm ──


def test_rows_that_come_twice(loopback: Settings) -> None:
    """An item that moved to a later page while the listing went on is listed once."""
    pages = {"": page_of(1, 2, link="?p=2"), "p=2": page_of(2, 3, link="?p=3"), "p=3": page_of(1, 4)}

    with serve(lambda one: pages[one.target.partition("?")[2] if "?p=" in one.target else ""]) as server:
        assert listed(loopback, server.origin) == ["1.txt", "2.txt", "3.txt", "4.txt"]


def test_listing_that_leads_in_circles(loopback: Settings) -> None:
    """Pages that lead back to one another end the listing with a sentence."""
    with serve(lambda _: page_of(1, link="?p=2")) as server, pytest.raises(SharePointUnavailable, match="leads back"):
        listed(loopback, server.origin)


def test_answer_that_unpacks_to_too_much(loopback: Settings) -> None:
    """An answer is read up to a limit, which counts what comes out of the compression."""
    bomb = gzip.compress(bytes(sharepoint_session.MOST_ANSWER_BYTES + 1_000_000), 9)
    reply = Reply(200, bomb, {"Content-Type": JSON, "Content-Encoding": "gzip"})

    with serve(lambda _: reply) as server, pytest.raises(SharePointUnavailable, match="more than 64 MB"):
        listed(loopback, server.origin)


@pytest.mark.parametrize(
    ("body", "kind", "sentence"),
    [
        (b"<html>Sign in</html>", "text/html", "page instead of data"),
        (b'{"d": {"results": [', JSON, "cannot be read"),
        (b"[" * 100_000, JSON, "cannot be read"),
        (b"\xff\xfe", JSON, "cannot be read"),
        (b"null", JSON, "not a list of items"),
        (b'{"d": {"results": [{"ID": 1}]}}', JSON, "row that cannot be read"),
        (b'{"d": {"results": [], "__next": 7}}', JSON, "not a text"),
        (b"", JSON, "cannot be read"),
    ],
)
def test_answers_that_are_no_listing(loopback: Settings, body: bytes, kind: str, sentence: str) -> None:
    """Whatever comes instead of a listing is an error with a sentence, never an empty listing."""
    reply = Reply(200, body, {"Content-Type": kind})
    with serve(lambda _: reply) as server, pytest.raises(SharePointUnavailable, match=sentence):
        listed(loopback, server.origin)


def test_error_with_a_large_body(loopback: Settings) -> None:
    """The text of an error is cut to a line; it does not fill the log."""
    error = {"error": {"code": "x", "message": {"value": "A\r\nB " * 100_000}}}

    with serve(lambda _: Reply.of_json(error, 404)) as server, pytest.raises(SharePointUnavailable) as refused:
        listed(loopback, server.origin)
    assert len(str(refused.value)) < 800
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("retry_after", ["soon", "-5", "0", "", "1e9", "Wed, 21 Oct 2015 07:28:00 GMT"])
def test_every_retry_after_is_survived(loopback: Settings, retry_after: str) -> None:
    """What cannot be read as seconds or a date is answered by a wait of our own; a date in the past by none."""
    replies = iter([Reply(429, b"", {"Retry-After": retry_after}), page_of(1)])

    with serve(lambda _: next(replies)) as server:
        assert listed(loopback, server.origin) == ["1.txt"]


def test_throttled_digest_is_waited_for_like_the_rest(loopback: Settings) -> None:
    """The form digest that the library asks for by itself follows our rules: it can be stopped, and is repeated."""
    with SharePointServer() as server:
        server.file("a.txt")
        server.throttle(3600, on="contextinfo", status=503)
        site = SharePointSite.open(loopback, server.site_url, lambda: len(server.requests) > 0)

        with pytest.raises(SharePointStopped):
            next(site.library("/Shared Documents"))
        assert not server.asked(LISTING)


def test_cookies_are_not_kept(loopback: Settings) -> None:
    """A cookie that the server sets does not come back."""
    reply = page_of(1, link="?p=2")
    with_cookie = Reply(200, reply.body, {**reply.headers, "Set-Cookie": "a=b; Path=/"})

    with serve(lambda one: page_of(2) if "?p=2" in one.target else with_cookie) as server:
        assert listed(loopback, server.origin) == ["1.txt", "2.txt"]
        assert all("cookie" not in request.headers for request in server.requests)


# ── the gate ──


def test_gate_is_one_for_each_server() -> None:
    """All sites of a server wait at one gate; another server has its own."""
    assert gate_of("https://a.example") is gate_of("https://a.example")
    assert gate_of("https://a.example") is not gate_of("https://b.example")


def test_gate_waits_for_the_longest_request_but_not_for_ever() -> None:
    """The longer wait holds, and a server that asks for a year is asked again after ten minutes."""
    gate = ThrottleGate()
    gate.close_for(1e9)
    gate.close_for(1)

    assert 0 < throttle_gate.LONGEST_WAIT_SECONDS - gate.closed_seconds() < throttle_gate.LONGEST_WAIT_SECONDS


def test_gate_can_be_left() -> None:
    """Whoever waits at a closed gate can be told to stop."""
    gate = ThrottleGate()
    gate.close_for(600)
    looks = iter([False, False])

    with pytest.raises(SharePointStopped):
        gate.wait(lambda: next(looks, True))


def test_backoff_grows_and_is_spread() -> None:
    """Each failure in a row is waited for longer, up to a minute, and never by all threads alike."""
    waits = [backoff_seconds(failures) for failures in (1, 5, 9, 1_000)]

    assert waits == sorted(waits)
    assert waits[-1] <= throttle_gate.LONGEST_BACKOFF_SECONDS
    assert len({backoff_seconds(5) for _ in range(20)}) > 1
