"""Webhooks over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from core.keys import Keys
from core.outputs.io.webhook_service import open_service
from core.settings import Settings
from core.store.connect import Client
from core.store.event_command import event
from tests.api import ApiServer, api_server
from tests.webhook_receiver import Receiver


@pytest.fixture
def mine(settings: Settings) -> Settings:
    """Settings that allow loopback."""
    return settings.model_copy(update={"fetch_allowed_hosts": ("127.0.0.0/8",)})


@pytest.fixture
async def open_api(mine: Settings, redis: Client) -> AsyncIterator[ApiServer]:
    """An API whose fetcher may ask loopback."""
    async with api_server(mine) as running:
        yield running


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as running:
        yield running


async def test_from_add_to_remove(
    open_api: ApiServer, receiver: Receiver, mine: Settings, redis: Client, keys: Keys
) -> None:
    """Added with a secret that is shown once, tested, fed, rotated, paused, skipped, replayed, removed."""
    added = await open_api.post("/api/webhooks", json={"url": receiver.url("/hook"), "types": ["item.*"]})
    secret, path = added.json["secret"], f"/api/webhooks/{added.json['id']}"
    receiver.trust("/hook", secret)
    tested = await open_api.post(f"{path}/test")
    for number in range(2):
        await redis.execute_command(*event(keys, "item.changed", id=f"url_{number}"))
    async with open_service(mine, redis, keys) as service:
        await service.run_once()
    shown = await open_api.get(path)
    listed = await open_api.get("/api/webhooks")
    rotated = await open_api.post(f"{path}/rotate")
    paused = await open_api.post(f"{path}/pause")
    await redis.execute_command(*event(keys, "item.gone", id="url_2"))
    async with open_service(mine, redis, keys) as service:
        await service.run_once()
    waiting = await open_api.get(path)
    skipped = await open_api.post(f"{path}/skip")
    dead = await open_api.get(f"{path}/dead?limit=5")
    replayed = await open_api.post(f"{path}/replay", json={})
    rewound = await open_api.post(f"{path}/replay", json={"from_id": "0"})
    resumed = await open_api.post(f"{path}/resume")
    removed = await open_api.ask("DELETE", path)

    assert (added.status, secret[:6], len(secret)) == (200, "whsec_", 50), added.text
    assert tested.json == {"is_taken": True, "http_status": 204, "reason": ""}
    assert [one.type for one in receiver.received["/hook"]] == ["webhook.test", "item.changed", "item.changed"]
    assert (shown.json["delivered"], shown.json["waiting"], shown.json["secret"]) == (2, 0, "whsec_…")
    assert listed.json["webhooks"] == [shown.json]
    assert rotated.json["secret"] not in (secret, "whsec_…")
    assert rotated.json["old_secret_until_ts"] > rotated.json["created_ts"] + 86_000
    assert (paused.json["status"], waiting.json["waiting"]) == ("paused", 1)
    assert [one["event_id"] for one in dead.json["dead_letters"]] == [skipped.json["event_id"]]
    assert replayed.json == {"from_id": None, "dead_letters": 1}
    assert "-" in rewound.json["from_id"] != "0-0"
    assert (resumed.json["status"], resumed.json["is_replaying"]) == ("active", True)
    assert removed.json == {"id": added.json["id"], "url": receiver.url("/hook")}
    assert (await open_api.get(path)).status == 404
    for answer in (shown, listed, paused, waiting, dead, resumed, removed):
        assert secret not in answer.text
        assert rotated.json["secret"] not in answer.text


@pytest.mark.parametrize(
    ("body", "status", "part"),
    [
        ({"url": "http://10.0.0.1/hook"}, 422, "FETCH_ALLOWED_HOSTS"),
        ({"url": "ftp://e.org/hook"}, 422, "Only http and https"),
        ({"url": "http://me:secret@e.org/hook"}, 422, "credentials"),
        ({"url": "https://e.org/hook", "types": ["news"]}, 422, "There are no events 'news'"),
        ({"url": "https://e.org/hook", "categories": ["wrold"]}, 404, "There is no category wrold"),
        ({"url": "https://e.org/hook", "domains": ["nowhere"]}, 404, "There is no domain nowhere"),
    ],
)
async def test_what_could_never_be_sent_is_refused(
    api: ApiServer, redis: Client, keys: Keys, body: dict[str, object], status: int, part: str
) -> None:
    """Each with a sentence that says what to do; nothing is stored."""
    answer = await api.post("/api/webhooks", json=body)

    assert (answer.status, part in answer.error["message"]) == (status, True), answer.text
    assert "secret" not in answer.text
    assert await redis.exists(keys.webhooks) == 0


async def test_health_misses_the_sender(api: ApiServer, redis: Client, keys: Keys) -> None:
    """Without webhooks nobody needs a sender; with one, its absence is a problem."""
    before = (await api.get("/health")).json["problems"]
    await api.post("/api/webhooks", json={"url": "https://e.org/hook"})
    after = (await api.get("/health")).json["problems"]

    assert not [one for one in before if "webhook" in one]
    assert [one for one in after if "webhook" in one] == [
        "The webhook sender has no heartbeat: no event is delivered to webhooks."
    ]
