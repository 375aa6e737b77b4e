"""The pages of webhooks, over real HTTP: what they show, every button, and that a secret is seen once."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest

from core.keys import Keys
from core.outputs.io.webhook_service import open_service
from core.outputs.io.webhook_store import WebhookStore
from core.outputs.webhook_filter import EventFilter
from core.settings import Settings
from core.store import connect
from core.store.connect import Client
from core.store.event_command import event
from tests.api import ApiServer
from tests.feed_pages import LOOPBACK, pages, person
from tests.form_client import PAGE, FormClient
from tests.webhook_receiver import Receiver
from workers.web.dashboard.webhook_texts import receiver_of

__all__ = ["pages", "person"]

SECRET = re.compile(r"whsec_[A-Za-z0-9+/=]{40,}")
HOSTILE = '<script>alert(1)</script> "quoted" \udc80'


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as running:
        yield running


@pytest.fixture
def store(redis: Client, keys: Keys) -> WebhookStore:
    return WebhookStore(redis, keys)


async def deliver(settings: Settings, redis: Client, keys: Keys, *ids: str) -> None:
    """Let these items change, and send all that can be sent now."""
    for item in ids:
        await redis.execute_command(*event(keys, "item.changed", id=item))
    mine = settings.model_copy(update={"fetch_allowed_hosts": LOOPBACK})
    async with open_service(mine, redis, keys) as service:
        await service.run_once()


async def test_an_empty_page_says_what_to_do(person: FormClient) -> None:
    """Without webhooks the page leads to the form; the form says where categories come from."""
    _, _, text = await person.ask("GET", "/webhooks")
    _, _, form = await person.ask("GET", "/webhooks/add")

    assert "No webhooks yet" in text
    assert 'href="/webhooks/add"' in text
    assert "There are no categories yet" in form


async def test_secret_is_shown_once_and_never_kept(pages: ApiServer, person: FormClient, store: WebhookStore) -> None:
    """It is in the answer to the form, which nobody may keep; not in a cookie, an address or a later page."""
    _, _, form = await person.ask("GET", "/webhooks/add")
    token = re.search(r'name="csrf" value="([^"]+)"', form)
    cookies = {name: cookie.value for name, cookie in person.cookies().items()}
    data = [("csrf", token[1]), ("url", "http://127.0.0.1:9/hook"), ("types", "item.gone"), ("types", "item.changed")]
    added = await pages.post("/webhooks/add", data=data, headers=PAGE, cookies=cookies, allow_redirects=False)
    [webhook] = await store.read_all()
    _, _, rotated = await person.submit(f"/webhooks/{webhook.id}", f"/webhooks/{webhook.id}/rotate")
    later = [(await person.ask("GET", path))[2] for path in ("/webhooks", f"/webhooks/{webhook.id}", "/")]
    second = (await store.require(webhook.id)).secret

    assert (added.status, added.headers["Cache-Control"]) == (200, "no-store")
    assert SECRET.findall(added.text) == [webhook.secret]
    assert webhook.filter == EventFilter(("item.gone", "item.changed"))
    headers = str(added.headers.getall("Set-Cookie", []))
    assert "Location" not in added.headers
    assert webhook.secret not in headers
    assert "freshet_notice" not in headers
    assert SECRET.findall(rotated) == [second] != [webhook.secret]
    assert "signatures of both" in rotated
    assert not any(SECRET.search(text) for text in later)
    assert not any(webhook.secret in cookie.value or second in cookie.value for cookie in person.cookies().values())
    assert "The old secret signs, too" in later[1]


async def test_reading_again_makes_no_webhook(person: FormClient) -> None:
    """The secret cannot be asked for: the address of the form is the empty form, that of rotate has no page."""
    status, _, text = await person.ask("GET", "/webhooks/add")
    rotate, _, _ = await person.ask("GET", "/webhooks/wh_000000000000/rotate")
    forged = await person.ask("POST", "/webhooks/add", data={"url": "http://127.0.0.1:9/", "csrf": "x"})

    assert (status, SECRET.search(text)) == (200, None)
    assert rotate == 405
    assert forged[0] == 403


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"url": "ftp://e.org/hook"}, "Only http and https"),
        ({"url": "http://10.0.0.1/hook"}, "FETCH_ALLOWED_HOSTS"),
        ({"url": "http://127.0.0.1:9/", "types": "news"}, "There are no events &#39;news&#39;"),
        ({"url": "http://127.0.0.1:9/", "categories": "wrold"}, "There is no category wrold"),
        ({"url": "http://127.0.0.1:9/", "search": "kept words", "domains": "nowhere"}, "There is no domain nowhere"),
        ({"url": 'javascript:alert("1")'}, "Only http and https"),
    ],
)
async def test_what_cannot_be_added_is_told_beside_the_form(
    person: FormClient, store: WebhookStore, fields: dict[str, str], part: str
) -> None:
    """The form comes back as it was filled in, with the reason; nothing is stored."""
    status, _, text = await person.submit("/webhooks/add", "/webhooks/add", **fields)

    assert status in (404, 422)
    assert part in text
    assert 'role="alert"' in text
    assert fields.get("search", "") in text
    assert 'alert("1")' not in text
    assert await store.read_all() == []


async def test_deliveries_and_failures_are_shown(
    person: FormClient, receiver: Receiver, store: WebhookStore, settings: Settings, redis: Client, keys: Keys
) -> None:
    """What was delivered, what waits, what the receiver answered, and when the next attempt is."""
    webhook = await store.add(receiver.url("/hook"), EventFilter(("item.*",)), await connect.now(redis))
    receiver.trust("/hook", webhook.secret)
    receiver.answers("/hook", 204, 503)
    await deliver(settings, redis, keys, "url_1", "url_2", "url_3")
    _, _, listed = await person.ask("GET", "/webhooks")
    _, _, shown = await person.ask("GET", f"/webhooks/{webhook.id}")

    row = listed[listed.index(f'id="webhook-{webhook.id}"') :]
    assert f"127.0.0.1:{receiver.port}/hook" in row
    assert re.search(r'data-label="Waiting">2<', row)
    assert re.search(r'data-label="Delivered">1<', row)
    assert "The receiver answered 503." in row
    assert "item.*" in row
    assert "failing" in row
    assert "1 of 10 attempts at this event failed" in shown
    assert "Try now" in shown


async def test_every_button(
    person: FormClient, receiver: Receiver, store: WebhookStore, settings: Settings, redis: Client, keys: Keys
) -> None:
    """Test, pause, skip, dead letters with their reason, replays, resume, remove: each says what it did."""
    webhook = await store.add(receiver.url("/hook"), EventFilter(), await connect.now(redis))
    receiver.trust("/hook", webhook.secret)
    path = f"/webhooks/{webhook.id}"

    async def press(name: str, **fields: str) -> str:
        status, end, text = await person.submit(path, f"{path}/{name}", back=path, **fields)
        assert (status, end) == (200, "/webhooks" if name == "remove" else path)
        return text

    assert "took the test message (HTTP 204)" in await press("test")
    receiver.answers("/hook", 500)
    refused = await press("test")
    assert "did not take the test message: The receiver answered 500." in refused
    assert 'role="alert"' in refused
    assert "Nothing waits." in await press("skip")
    assert "events are collected" in await press("pause")
    await deliver(settings, redis, keys, "url_1", "url_2")
    skipped = await press("skip")
    assert "is given up; it is among the dead letters" in skipped
    assert "Skipped by hand." in skipped
    assert "One dead letter is delivered once more" in await press("replay_dead")
    assert "There are no dead letters." in await press("replay_dead")
    first = (await redis.xrange(keys.events, count=1))[0][0]
    assert f"The events from {first} on are delivered once more" in await press("replay", from_id="0-1")
    assert 'role="alert"' in await press("replay", from_id="yesterday")
    receiver.answers("/hook", 204)
    assert "again." in await press("resume")
    await deliver(settings, redis, keys)
    assert len(receiver.taken("/hook")) >= 3
    assert "Removed: 127.0.0.1" in await press("remove")
    assert (await person.ask("GET", path))[0] == 404
    assert await store.read_all() == []


async def test_hostile_values_are_text(
    pages: ApiServer, person: FormClient, store: WebhookStore, redis: Client, keys: Keys
) -> None:
    """Whatever filters, errors, reasons and messages hold, nothing of it is markup, and no secret of a URL is shown."""
    wanted = EventFilter((HOSTILE,), (HOSTILE,), (HOSTILE,), HOSTILE)
    webhook = await store.add("https://hooks.example.org/services/T0A1B2/x7KqL9?token=hunter2", wanted, 1.0)
    await redis.hset(
        keys.webhook(webhook.id),
        mapping={"last_error": f"{HOSTILE} https://a.org/?token=hunter2", "status_reason": HOSTILE},
    )
    dead = {
        "event": HOSTILE,
        "type": HOSTILE,
        "body": HOSTILE,
        "reason": "https://a.org/?token=hunter2",
        "attempts": "x",
    }
    await redis.xadd(keys.webhook_dead(webhook.id), dead)
    texts = [(await person.ask("GET", path))[2] for path in ("/webhooks", f"/webhooks/{webhook.id}")]

    for text in texts:
        assert "<script>alert" not in text
        assert "alert(1)" in text
        assert "hooks.example.org/…" in text
        assert "x7KqL9" not in text
        assert "hunter2" not in text


async def test_list_is_paged(person: FormClient, store: WebhookStore, redis: Client) -> None:
    """50 to a page, the last changed first; a page beyond the end leads back."""
    for number in range(52):
        await store.add(f"https://e.org/hook-{chr(97 + number // 26)}{chr(97 + number % 26)}", EventFilter(), 1.0)
    pages = [(await person.ask("GET", f"/webhooks?page={number}"))[2] for number in (1, 2, 9)]

    assert [text.count('id="webhook-') for text in pages] == [50, 2, 0]
    assert "e.org/hook-bz" in pages[0]
    assert "e.org/hook-aa" in pages[1]
    assert "1–50 of 52" in pages[0]
    assert "To the first page" in pages[2]


async def test_many_categories_are_typed(person: FormClient, redis: Client, keys: Keys, store: WebhookStore) -> None:
    """Few are boxes; where there are many, their names are written, separated by commas."""
    await redis.sadd(keys.categories, "world", "sport")
    _, _, few = await person.ask("GET", "/webhooks/add")
    await redis.sadd(keys.categories, *(f"c{number}" for number in range(70)))
    _, _, many = await person.ask("GET", "/webhooks/add")
    await person.submit("/webhooks/add", "/webhooks/add", url="http://127.0.0.1:9/", categories="c1, sport ,c1")

    assert '<input type="checkbox" name="categories" value="sport"' in few
    assert '<input name="categories"' in many
    assert (await store.read_all())[0].filter.categories == ("c1", "sport")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.org/hook", "example.org/hook"),
        ("https://example.org:8443/api/v2/news-hook", "example.org:8443/api/v2/news-hook"),
        ("https://example.org", "example.org"),
        ("http://[::1]:9000/hook", "[::1]:9000/hook"),
        ("https://hooks.slack.com/services/T00000000/B00000000/abc", "hooks.slack.com/…"),
        ("https://discord.com/api/webhooks/123456789012345678/abcDEF", "discord.com/…"),
        ("https://example.org/hook?token=…", "example.org/…"),
        ("https://example.org/hook#x", "example.org/…"),
        ("https://[broken/", "?"),
    ],
)
def test_receiver_without_secrets(url: str, shown: str) -> None:
    """A plain path is shown; of anything that may hold a secret only the host."""
    assert receiver_of(url) == shown
