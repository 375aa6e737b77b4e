"""The page Settings: every setting, where it came from, no secret."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.runtime.settings_report import SettingOrigin, documented, settings_report, shown
from core.secret_text import SecretStr
from core.settings import Settings, load
from core.store.connect import Client
from tests.api import ApiServer, api_server
from tests.form_client import PAGE

SECRETS = {
    "github_token": SecretStr("ghp_verysecret"),
    "api_token": SecretStr("token-verysecret-enough"),
    "embed_api_key": SecretStr("sk-verysecret"),
    "blob_sas_token": SecretStr("sig=verysecret"),
    "queue_redis_url": SecretStr("redis://someone:verysecret/with@queue.example.org:6379/1"),
    "fetch_proxy_url": SecretStr("http://someone:verysecret@proxy.example.org:3128"),
    "github_api_url": "https://someone:verysecret@github.example.org/api/v3?access_token=verysecret",
    "user_agent": "<script>alert(1)</script>",
}


@pytest.fixture
async def secretive(settings: Settings, redis: Client) -> AsyncIterator[ApiServer]:
    """A dashboard with secrets in its settings."""
    async with api_server(settings.model_copy(update={**SECRETS, "queue_redis_url": None})) as running:
        yield running


async def test_every_setting_is_there_and_no_secret(secretive: ApiServer) -> None:
    """All names with their documentation; secrets are set and hidden, URLs have no password, values are text."""
    headers = {"Authorization": "Bearer token-verysecret-enough"}
    page = await secretive.get("/settings", headers={**PAGE, **headers})
    answer = await secretive.get("/api/settings", headers=headers)

    assert page.status == 200, page.text
    assert all(f'id="{name.upper()}"' in page.text for name in Settings.names())
    assert "how often the ingestor looks for due feeds" in page.text
    for text in (page.text, answer.text):
        assert "verysecret" not in text
        assert "proxy.example.org:3128" in text
        assert "github.example.org" in text
    assert "<script>alert" not in page.text
    assert page.text.count("set, hidden") == 4
    assert {one["name"] for one in answer.json["settings"]} == {name.upper() for name in Settings.names()}


def test_no_secret_of_any_setting_is_shown() -> None:
    """Also of a Redis URL whose password has signs that it should not have."""
    for name, value in SECRETS.items():
        assert "verysecret" not in shown(name, value), name


def test_origins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment, `.env`, the default, and what the process started with when those have changed since."""
    file = tmp_path / ".env"
    file.write_text("TIMER_SECONDS=20\nLOG_LEVEL=DEBUG\nFETCH_CONCURRENCY=5\n")
    monkeypatch.setattr(Settings, "env_file", file)
    monkeypatch.setenv("LOG_LEVEL", "ERROR")
    settings = load()
    file.write_text("TIMER_SECONDS=20\nFETCH_CONCURRENCY=6\n")
    found = {one.name: one for one in settings_report(settings)}

    assert (found["LOG_LEVEL"].value, found["LOG_LEVEL"].origin) == ("ERROR", SettingOrigin.ENVIRONMENT)
    assert (found["TIMER_SECONDS"].value, found["TIMER_SECONDS"].origin) == ("20", SettingOrigin.FILE)
    assert (found["FETCH_CONCURRENCY"].value, found["FETCH_CONCURRENCY"].origin) == ("5", SettingOrigin.START)
    assert (found["SNAPSHOT_DAYS"].value, found["SNAPSHOT_DAYS"].origin) == ("0", SettingOrigin.DEFAULT)
    assert found["TIMER_SECONDS"].default == "10"


def test_settings_that_cannot_be_read_any_more_do_not_hide_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `.env` that was damaged after the start costs nothing but the comparison."""
    file = tmp_path / ".env"
    settings = load()
    file.write_text("TIMER_SECONDS=soon\n")
    monkeypatch.setattr(Settings, "env_file", file)

    assert len(settings_report(settings)) == len(Settings.names())


def test_documentation_may_be_missing(tmp_path: Path) -> None:
    """Without the page there are no texts, and no error."""
    assert documented(tmp_path / "none.md") == {}
