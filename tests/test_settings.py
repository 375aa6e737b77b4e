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
    assert set(example()) == {name.upper() for name in Settings.model_fields}


def test_example_shows_the_defaults(tmp_path: Path) -> None:
    """Copying the example changes nothing."""
    copied = Settings(_env_file=EXAMPLE)  # type: ignore[call-arg]

    assert copied == Settings()


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("FETCH_CONCURRENCY", "many", "FETCH_CONCURRENCY"),
        ("FETCH_TIMEOUT_SECONDS", "-1", "FETCH_TIMEOUT_SECONDS"),
        ("LOG_LEVEL", "LOUD", "LOG_LEVEL"),
        ("FETCH_ALLOWED_PORTS", "80,http", "FETCH_ALLOWED_PORTS"),
        ("FETCH_ALLOWED_HOSTS", "10.0.0.0/99", "FETCH_ALLOWED_HOSTS"),
        ("INGEST_MAX_INTERVAL_SECONDS", "60", "INGEST_MAX_INTERVAL_SECONDS"),
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
