"""Who may use the dashboard: the login, the token of forms, errors as pages."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest

from core.feeds.io.subscriptions import Subscriptions
from core.secret_text import SecretStr
from core.settings import Settings
from core.store import connect
from tests.api import ApiServer, api_server
from tests.form_client import PAGE, FormClient
from workers.web.dashboard.forms import own_path
from workers.web.dashboard.signer import Signer
from workers.web.dashboard.views import PAGES

TOKEN = "a-token-of-some-length"


@pytest.fixture
async def locked(settings: Settings, redis: connect.Client) -> AsyncIterator[ApiServer]:
    """A dashboard with a token."""
    async with api_server(settings.model_copy(update={"api_token": SecretStr(TOKEN)})) as running:
        yield running


async def test_without_a_login_pages_lead_to_the_login(locked: ApiServer) -> None:
    """A page leads to the login and from there back to itself; nothing of the store is shown before."""
    async with FormClient(locked) as browser:
        status, path, text = await browser.ask("GET", "/?")
        wrong = await browser.submit("/login", "/login", token="guess", next="/")
        right = await browser.submit("/login", "/login", token=TOKEN, next="/")
        cookies = browser.cookies()

    assert (status, path.split("?")[0]) == (200, "/login")
    assert "Articles</a></dt>" not in text
    assert (wrong[1], "This is not the API token." in wrong[2]) == ("/login?next=/", True)
    assert (right[0], right[1]) == (200, "/")
    assert "Log out" in right[2]
    login = cookies["freshet_login"]
    assert (login["httponly"], login["samesite"]) == (True, "Lax")


async def test_login_reads_but_does_not_call_the_api(locked: ApiServer) -> None:
    """The cookie is enough for pages, forms and reading; changes by the API need the token itself."""
    async with FormClient(locked) as browser:
        await browser.submit("/login", "/login", token=TOKEN, next="/")
        read = await browser.ask("GET", "/api/feeds")
        write = await browser.ask("POST", "/api/feeds", json={"category": "x", "url": "http://127.0.0.1:9/"})
        await browser.submit("/", "/logout")
        after = await browser.ask("GET", "/api/feeds")

    assert (read[0], write[0], after[0]) == (200, 401, 401)


async def test_forged_cookies_are_no_login(locked: ApiServer) -> None:
    """Another key, another purpose, or no signature: the login page."""
    far = {"until_ts": 9e12}
    forged = [Signer(b"x" * 32).pack("login", far), Signer(b"x" * 32).pack("notice", far), "x.y", ".", "é.é"]
    for value in forged:
        async with FormClient(locked) as browser:
            status, path, _ = await browser.ask("GET", "/", headers={"Cookie": f"freshet_login={value}"})

            assert (status, path.split("?")[0]) == (200, "/login"), value


async def test_every_form_needs_its_token(api: ApiServer) -> None:
    """No token, a wrong one, or that of another browser: 403, whatever the form is for."""
    async with FormClient(api) as other, FormClient(api) as browser:
        _, _, text = await other.ask("GET", "/login")
        foreign = re.search(r'name="csrf" value="([^"]+)"', text)[1]
        await browser.ask("GET", "/login")
        for route in PAGES:
            if route.method != "POST":
                continue
            path = route.path.format_map(dict.fromkeys(route.path_fields, "none"))
            for token in ("", "x", foreign):
                status, _, page = await browser.ask("POST", path, data={"csrf": token}, allow_redirects=False)

                assert (status, "reload the page" in page) == (403, True), (path, token)


async def test_errors_are_pages_for_people_and_json_for_programs(api: ApiServer) -> None:
    """A browser gets a page with the sentence; the API answers in JSON whoever asks."""
    page = await api.get("/nothing", headers=PAGE)
    program = await api.get("/nothing")
    browser_at_the_api = await api.get("/api/articles/none", headers=PAGE)

    assert (page.status, page.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert "There is nothing at /nothing." in page.text
    assert program.error["code"] == "not_found"
    assert browser_at_the_api.error["code"] == "not_found"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/feeds?category=world", "/feeds?category=world"),
        ("", "/"),
        ("//evil.example.org/", "/"),
        ("/\\evil.example.org", "/"),
        ("https://evil.example.org/", "/"),
        ("/a\r\nSet-Cookie: x=y", "/"),
    ],
)
def test_the_way_back_is_a_path_of_ours(path: str, expected: str) -> None:
    """A form cannot lead to another server."""
    assert own_path(path) == expected


def test_a_signature_is_for_one_purpose() -> None:
    """What was signed as a notice cannot be used as a login."""
    signer = Signer(b"k" * 32)

    assert signer.unpack("notice", signer.pack("notice", {"a": 1})) == {"a": 1}
    assert signer.unpack("login", signer.pack("notice", {"a": 1})) is None


@pytest.mark.parametrize("cookie", ["\udcff.x", "x.\udcff", "\udcff"])
def test_bytes_that_are_no_text_are_no_signature(cookie: str) -> None:
    """Whatever a browser sends as a cookie is compared and refused."""
    assert Signer(b"k" * 32).unpack("notice", cookie) is None


async def test_form_that_is_filled_in_wrongly_leads_back(api: ApiServer) -> None:
    """The page that the form was on says what is wrong with it."""
    async with FormClient(api) as person:
        status, path, text = await person.submit("/login", "/why/read-again", url="x" * 9_000, back="/why")

    assert (status, path) == (200, "/why")
    assert "url: String should have at most 8000 characters" in text


async def test_links_to_feeds_can_be_copied_into_a_reader(locked: ApiServer) -> None:
    """With an API token, the addresses of republished feeds carry the token of feeds, and need nothing else."""
    await Subscriptions(locked.opener.require().client, locked.opener.require().keys).add(
        "world", "http://127.0.0.1:9/"
    )
    async with FormClient(locked) as person:
        await person.submit("/login", "/login", token=TOKEN, next="/")
        _, _, text = await person.ask("GET", "/feeds")
    (address,) = re.findall(r'href="(/feeds/world\.rss[^"]*)"', text)

    assert (await locked.get(address)).status == 200
    assert (await locked.get("/feeds/world.rss")).status == 401
