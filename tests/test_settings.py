"""One class of settings: defaults, bad values, and the example file."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import SettingsError
from core.settings import Settings, load

EXAMPLE = Path(__file__).parents[1] / ".env.example"


def example() -> dict[str, str]:
    lines = EXAMPLE.read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_example_names_every_setting_and_nothing_else() -> None:
    """A new setting without a line in .env.example fails here."""
    assert set(example()) == {name.upper() for name in Settings.names()}


def test_example_shows_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copying the example changes nothing."""
    defaults = Settings()
    monkeypatch.setattr(Settings, "env_file", EXAMPLE)

    assert Settings() == defaults


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("FETCH_CONCURRENCY", "many", "FETCH_CONCURRENCY"),
        ("FETCH_TIMEOUT_SECONDS", "-1", "FETCH_TIMEOUT_SECONDS"),
        ("LOG_LEVEL", "LOUD", "LOG_LEVEL"),
        ("FETCH_ALLOWED_PORTS", "80,http", "FETCH_ALLOWED_PORTS"),
        ("FETCH_ALLOWED_HOSTS", "10.0.0.0/99", "FETCH_ALLOWED_HOSTS"),
        ("INGEST_MAX_INTERVAL_SECONDS", "60", "INGEST_MAX_INTERVAL_SECONDS"),
        ("API_BIND", "8080", "write host:port"),
        ("API_BIND", "127.0.0.1:port", "write host:port"),
        ("FRESHET_URL", "127.0.0.1:8080", "such as http://127.0.0.1:8080"),
        ("FRESHET_URL", "http://127.0.0.1:port", "such as http://127.0.0.1:8080"),
        ("FRESHET_URL", "http://user:secret@host/", "such as http://127.0.0.1:8080"),
    ],
)
def test_bad_value_is_a_sentence_with_the_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, expected: str
) -> None:
    """The start stops with one sentence that names the variable."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError) as caught:
        load()

    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        "localhost:3128",
        "proxy.example",
        "socks5://proxy.example:1080",
        "http://",
        "http://:3128",
        "http://proxy.example:99999",
        "http://proxy.example:0",
        "http://proxy.example:port",
        "http://proxy.example:3128/path",
        "http://user:pa#ss@proxy.example:3128",
        "http://user:pa ss@proxy.example:3128",
        "http://proxy.example:3128?x=1",
        "http://[::1:3128",
        "http://proxy.example:3128\n",
    ],
)
def test_what_is_no_proxy_stops_the_start(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """One sentence with the variable and with what would do; the value may hold a password and is not shown."""
    monkeypatch.setenv("FETCH_PROXY_URL", value)
    with pytest.raises(SettingsError) as caught:
        load()

    assert "FETCH_PROXY_URL" in str(caught.value)
    assert "ss@" not in str(caught.value)
    assert "http://host:port" in str(caught.value) or "on one line" in str(caught.value)


@pytest.mark.parametrize(
    "value",
    ["http://proxy.example:3128", "https://u:p%23@proxy.example", "http://127.0.0.1:8080/", "http://[::1]:3128"],
)
def test_proxies_that_will_do(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """With or without a port, a name and a password."""
    monkeypatch.setenv("FETCH_PROXY_URL", value)

    proxy = load().fetch_proxy_url
    assert proxy is not None
    assert proxy.get_secret_value() == value


@pytest.mark.parametrize("name", ["USER_AGENT", "GITHUB_TOKEN", "EMBED_API_KEY", "BLOB_SAS_TOKEN", "GITHUB_API_URL"])
@pytest.mark.parametrize("value", ["Freshet\nX-Evil: 1", "a\x1b[31mb", "a\x7fb", "a\x85b", "\tab", "a\udcffb"])
def test_control_characters_stop_the_start(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """A line break in a header would be blamed on every link."""
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as caught:
        load()

    assert name in str(caught.value)
    assert str(caught.value).isprintable()


def test_bad_secret_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence about a bad number may quote it; secrets print as stars."""
    monkeypatch.setenv("REDIS_URL", "redis://:hunter2@h/0")

    assert "hunter2" not in repr(load())


@pytest.mark.parametrize("value", ["a.example, b.example:81", "a.example,b.example:81,", " a.example ,,b.example:81"])
def test_lists_are_written_with_commas(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Blanks and trailing commas do no harm."""
    monkeypatch.setenv("FETCH_ALLOWED_HOSTS", value)

    assert load().fetch_allowed_hosts == ("a.example", "b.example:81")


def test_empty_variable_is_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """`REDIS_URL=` in a .env means: not set."""
    monkeypatch.setenv("REDIS_URL", "")

    assert load().redis_url is None
