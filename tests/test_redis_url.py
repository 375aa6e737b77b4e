"""What is shown of a Redis URL, and what is said of one that cannot be used."""

from __future__ import annotations

import io
import logging

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from core.errors import SettingsError
from core.runtime import logs
from core.secret_text import SecretStr
from core.settings import Settings
from core.store import connect, redis_health
from core.urls import redis_url

CUT = [
    "redis://:hun#ter2@db.example.org:6379/0",
    "redis://:hun/ter2@db.example.org:6379/0",
    "redis://:hun?ter2@db.example.org:6379/0",
    "redis://:hun[ter2@db.example.org:6379/0",
    "redis://me:12#ter2@db.example.org:6379/0",
    "redis://:12/hunter2@db.example.org",
    "redis://:12?hunter2@db.example.org",
    "rediss://me:hun#ter2@db.example.org",
    "redis+sentinel://:hun#ter2@a:26379,b:26379/main/0",
    "redis://:hun#ter2",
]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
        ("redis://:hunter2@127.0.0.1:6390/0", "redis://127.0.0.1:6390/0"),
        ("rediss://me:hunt%23er2@db.example.org/1?client_name=a@b", "rediss://db.example.org/1"),
        ("redis://:hun@ter2@db.example.org", "redis://db.example.org"),
        ("redis://[::1]:6379/0", "redis://[::1]:6379/0"),
        ("unix:///run/redis.sock?password=hunter2", "unix:///run/redis.sock"),
        ("redis+sentinel://:hunter2@a:1,b:2/main/0", "redis+sentinel://a:1,b:2/main/0"),
        ("hunter2", "…"),
    ],
)
def test_masked(url: str, shown: str) -> None:
    """Where, never with what password."""
    assert redis_url.masked(url) == shown


@pytest.mark.parametrize("url", CUT)
def test_password_that_cuts_the_url_is_never_shown(url: str) -> None:
    """Neither half of it: not in what is shown, not in the sentence, not in the log; the sentence says what to do."""
    settings = Settings(redis_url=SecretStr(url))
    with pytest.raises(SettingsError) as caught:
        connect.open_store(settings)
    stream = io.StringIO()
    logs.configure(settings, stream)
    logging.getLogger("up").error("it said hun#ter2 of %s", redis_health.explain(RedisConnectionError("x"), url))

    for text in (redis_url.masked(url), str(caught.value)):
        assert not [half for half in ("hun", "ter2", "12") if half in text], text
    assert "percent-encoded" in str(caught.value)
    assert "REDIS_URL" in str(caught.value)
    assert "hunter2" not in stream.getvalue()


def test_queue_url_is_named_by_its_own_name() -> None:
    """A bad QUEUE_REDIS_URL is not blamed on REDIS_URL."""
    with pytest.raises(SettingsError, match=r"Cannot start\. QUEUE_REDIS_URL: "):
        connect.open_queue(Settings(queue_redis_url=SecretStr("redis://:pa#ss@h/0")))


def test_encoded_password_reaches_the_client() -> None:
    """What the sentence advises works."""
    client = connect.open_bytes(Settings(), "redis://:pa%23s%2Fs%40@h:1/0")

    assert client.connection_pool.connection_kwargs["password"] == "pa#s/s@"


@pytest.mark.parametrize("url", ["redis://:s3#cr@h/0", "redis://me:s3%23cr@h/0"])
def test_passwords_of_a_url_are_known_as_written_and_decoded(url: str) -> None:
    """Both forms are struck out of logs."""
    assert "s3#cr" in redis_url.passwords(url)
