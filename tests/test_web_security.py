"""Who may use the HTTP API, how much, and what its answers tell browsers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from core.errors import SettingsError
from core.secret_text import SecretStr
from core.settings import Settings
from core.store import connect
from tests.api import PROBES, Answer, ApiServer, api_server
from workers.web import limits, security
from workers.web.dashboard.views import PAGES
from workers.web.routes import ROUTES
from workers.web.routing import EVENT_STREAM, Route

TOKEN = "a-token-of-some-length"


@pytest.fixture
async def locked(settings: Settings, redis: connect.Client) -> AsyncIterator[ApiServer]:
    """An API with a token."""
    async with api_server(settings.model_copy(update={"api_token": SecretStr(TOKEN)})) as running:
        yield running


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def ask(api: ApiServer, route: Route[Any], **options: Any) -> Answer:
    """Ask a route for nothing in particular: HEAD where there may be a stream, no parameters, ids that nobody has."""
    path = route.path.format_map(dict.fromkeys(route.path_fields, "none"))
    method = "HEAD" if EVENT_STREAM in route.other_types and route.method == "GET" else route.method
    return await api.ask(method, path, **options)


# ── the token ──


async def test_every_route_needs_the_token(locked: ApiServer) -> None:
    """Without a token, with a wrong one or with another scheme every route and page but the public ones answers 401."""
    wrong = [bearer(TOKEN + "x"), bearer(""), bearer("ä"), {"Authorization": f"Basic {TOKEN}"}, {"Accept": "*/*"}]
    for route in (*ROUTES, *PAGES):
        for headers in wrong:
            answer = await ask(locked, route, headers=headers)

            assert (answer.status == 401) is not route.is_public, (route.path, headers)
        right = await ask(locked, route, headers=bearer(TOKEN))
        assert right.status != 401, route.path

    public = {route.path for route in (*ROUTES, *PAGES) if route.is_public}
    assert public == {"/health", "/static/{name}", "/login", "/logout"}


async def test_unknown_paths_need_the_token_too(locked: ApiServer) -> None:
    """Nobody without a token learns what there is."""
    answer = await locked.get("/nothing")

    assert (answer.status, answer.error["code"]) == (401, "unauthorized")
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("bind", ["0.0.0.0:8080", "192.168.1.5:80", "[::]:8080", "example.org:8080"])
def test_only_loopback_without_a_token(bind: str) -> None:
    """On any other address the API refuses to start without a token, and names both settings."""
    with pytest.raises(SettingsError, match=r"API_BIND.*API_TOKEN"):
        security.require_safe_bind(Settings(api_bind=bind))

    security.require_safe_bind(Settings(api_bind=bind, api_token=SecretStr(TOKEN)))


@pytest.mark.parametrize("bind", ["127.0.0.1:8080", "[::1]:8080", "localhost:8080", "127.1.2.3:1"])
def test_loopback_needs_no_token(bind: str) -> None:
    """An address that only this machine reaches is safe."""
    assert security.require_safe_bind(Settings(api_bind=bind)) is None


def test_any_host_needs_a_token() -> None:
    """API_ALLOWED_HOSTS=* would open a loopback API to every page."""
    with pytest.raises(SettingsError, match="API_ALLOWED_HOSTS"):
        security.require_safe_bind(Settings(api_allowed_hosts=("*",)))


# ── hosts and origins ──


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8080", 200),
        ("localhost", 200),
        ("LOCALHOST:1", 200),
        ("[::1]:8080", 200),
        ("freshet.example.org", 200),
        ("evil.example.org", 403),
        ("127.0.0.1.evil.example.org", 403),
        ("localhost.evil.example.org:8080", 403),
        ("evil.example.org:127.0.0.1", 403),
        ("user@localhost@evil.example.org", 403),
        ("", 403),
    ],
)
async def test_foreign_host_is_refused(settings: Settings, redis: connect.Client, host: str, status: int) -> None:
    """Only names of this machine, and those of API_ALLOWED_HOSTS, are answered (DNS rebinding)."""
    async with api_server(settings.model_copy(update={"api_allowed_hosts": ("freshet.example.org",)})) as api:
        answer = await api.get("/docs", headers={"Host": host})

    assert answer.status == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://localhost:8080"}, 200),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Origin": "http://evil.example.org"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200),
        ({"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}, 200),
    ],
)
async def test_foreign_origin_is_refused(api: ApiServer, headers: dict[str, str], status: int) -> None:
    """A page of another origin, another port of this machine included, gets nothing but a link."""
    answer = await api.get("/docs", headers={"Host": "localhost:8080", **headers})

    assert answer.status == status
    assert not any(name.lower().startswith("access-control") for name in answer.headers)


async def test_form_of_a_foreign_page_posts_nothing(api: ApiServer) -> None:
    """The content types that a form can send without being asked first are refused by every route."""
    for route in ROUTES:
        if route.method == "GET":
            continue
        for kind in ("application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain"):
            answer = await ask(api, route, data=b"a=b", headers={"Content-Type": kind})

            assert answer.status == 415, (route.path, kind)


# ── methods ──


async def test_nothing_is_changed_by_get(api: ApiServer) -> None:
    """Every route that changes something is no GET, and GET on its path answers 405 and names the methods it has."""
    paths = {route.path for route in ROUTES if route.method == "GET"}
    for route in ROUTES:
        assert not (route.is_destructive and route.method == "GET"), route.path
        if route.path in paths:
            continue
        answer = await api.get(route.path.format_map(dict.fromkeys(route.path_fields, "none")))

        assert answer.status == 405, route.path
        assert route.method in answer.headers["Allow"]


async def test_options_names_the_methods_and_allows_no_origin(api: ApiServer) -> None:
    """OPTIONS answers every path with its methods, and with nothing that would let another origin in."""
    for route in ROUTES:
        answer = await api.ask("OPTIONS", route.path.format_map(dict.fromkeys(route.path_fields, "none")))

        assert answer.status == 204
        assert route.method in answer.headers["Allow"].split(", ")
        assert not any(name.lower().startswith("access-control") for name in answer.headers)


async def test_head_is_get_without_a_body(api: ApiServer) -> None:
    """HEAD answers like GET."""
    get, head = await api.get("/docs"), await api.ask("HEAD", "/docs")

    assert (head.status, head.text, head.headers["Content-Type"]) == (200, "", get.headers["Content-Type"])


# ── limits ──


async def test_large_body_is_refused(settings: Settings, redis: connect.Client) -> None:
    """A body above API_MAX_BODY_BYTES answers 413, whether or not it says its length."""

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * 1000

    async with api_server(settings.model_copy(update={"api_max_body_bytes": 2000}), PROBES) as api:
        for body in (b"x" * 3000, endless()):
            answer = await api.post("/probe", data=body, headers={"Content-Type": "application/json"})

            assert (answer.status, answer.error["code"]) == (413, "too_large")


async def test_deep_body_is_refused(settings: Settings, redis: connect.Client) -> None:
    """JSON that is nested too deep is refused before it is parsed."""
    async with api_server(settings, PROBES) as api:
        for body in (b"[" * 100_000, b'{"a":' * 100_000 + b"1" + b"}" * 100_000):
            answer = await api.post("/probe", data=body, headers={"Content-Type": "application/json"})

            assert (answer.status, answer.error["code"]) == (422, "too_deep")


@pytest.mark.parametrize(
    ("body", "depth"),
    [(b"", 0), (b"1", 0), (b"{}", 1), (b'{"a": [1, {"b": []}]}', 4), (b'["[[[[", "\\"[[["]', 1), (b'["[[[', 1)],
)
def test_depth_counts_brackets_outside_of_strings(body: bytes, depth: int) -> None:
    """Brackets in strings are text."""
    assert limits.json_depth(body) == depth


async def test_too_many_requests_are_refused(settings: Settings, redis: connect.Client) -> None:
    """After API_REQUESTS_PER_MINUTE a client gets 429 and is told when to come back."""
    async with api_server(settings.model_copy(update={"api_requests_per_minute": 5})) as api:
        answers = [await api.get("/docs") for _ in range(6)]

    assert [answer.status for answer in answers] == [200] * 5 + [429]
    assert int(answers[-1].headers["Retry-After"]) >= 1
    assert answers[-1].error["code"] == "too_many_requests"


def test_bucket_fills_again() -> None:
    """A token comes back after its share of a minute, and never more than a minute's worth."""
    buckets = limits.TokenBuckets(per_minute=2)

    assert [buckets.wait_seconds("a", 0.0) for _ in range(3)] == [0.0, 0.0, 30.0]
    assert buckets.wait_seconds("b", 0.0) == 0.0
    assert [buckets.wait_seconds("a", 30.0) for _ in range(2)] == [0.0, 30.0]
    assert [buckets.wait_seconds("a", 9999.0) for _ in range(3)] == [0.0, 0.0, 30.0]


def test_buckets_are_few() -> None:
    """Clients that asked longest ago are forgotten."""
    buckets = limits.TokenBuckets(per_minute=1)
    for number in range(limits.MOST_CLIENTS + 10):
        buckets.wait_seconds(str(number), 0.0)

    assert len(buckets._buckets) == limits.MOST_CLIENTS


# ── headers ──


async def test_every_answer_has_careful_headers(api: ApiServer) -> None:
    """Policy without inline script and style, no sniffing, no framing, no referrer, no cache; errors too."""
    for path in ("/docs", "/openapi.json", "/nothing", "/stream?typ=x"):
        headers = (await api.get(path)).headers
        policy = headers["Content-Security-Policy"]

        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Referrer-Policy"] == "same-origin"
        assert headers["Cache-Control"] == "no-store"
