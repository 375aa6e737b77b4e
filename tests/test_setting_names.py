"""Misspelt settings are told with the nearest one; the environment wins over `.env`."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.runtime import logs
from core.setting_names import misnamed
from core.settings import Settings, load

ROOT = Path(__file__).parents[1]
KNOWN = Settings.names()


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("FETCH_ALLOWED_HOST", "FETCH_ALLOWED_HOSTS"),
        ("FETCH_ALOWED_HOSTS", "FETCH_ALLOWED_HOSTS"),
        ("fetch_allowed_host", "FETCH_ALLOWED_HOSTS"),
        ("FETCH_TIMEOUT", "FETCH_TIMEOUT_SECONDS"),
        ("REDIS_URI", "REDIS_URL"),
        ("ROBOT_RESPECT", "ROBOTS_RESPECT"),
        ("EMBEDER", "EMBEDDER"),
        ("EMBEDDR", "EMBEDDER"),
        ("LOGLEVEL", "LOG_LEVEL"),
        ("USERAGENT", "USER_AGENT"),
        ("FETCH_PARALLEL", "FETCH_HOST_PARALLEL"),
    ],
)
def test_nearest_is_told(name: str, nearest: str) -> None:
    """In `.env` as in the environment."""
    for told in (misnamed([name], [], KNOWN), misnamed([], [name], KNOWN)):
        assert told[name.upper()].endswith(f"{name.upper()} is not a setting; did you mean {nearest}?")


@pytest.mark.parametrize("name", ["RESPECT_ROBOTS", "AGENT_USER", "FETC_CONCURRENCY", "USER_AGNET", "REDISURL"])
def test_misspelt_name_of_the_environment_is_told(name: str) -> None:
    """Words in another order, a letter that is missing or in the wrong place: no shared beginning is needed."""
    assert "did you mean" in misnamed([], [name], KNOWN)[name]


def test_any_foreign_name_of_the_file_is_told() -> None:
    """Also one that resembles nothing."""
    assert "is ignored" in misnamed(["QUUX"], [], KNOWN)["QUUX"]


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "HOME",
        "LANG",
        "REDIS_PORT",
        "REDIS_HOST",
        "REDIS_PASSWORD",
        "GITHUB_ACTION",
        "GITHUB_GRAPHQL_URL",
        "GITHUB_SERVER_URL",
        "LOG_FILE",
        "DB_LOG_LEVEL",
        "KEY",
        "USER",
        "GITHUB",
        "EMBED_MODEL_PATH",
    ],
)
def test_environment_of_others_is_left_alone(name: str) -> None:
    """Only what is plainly ours is told."""
    assert misnamed([], [name], KNOWN) == {}


COMMON = """
    HOME PATH LANG LOGNAME USER USERNAME EDITOR VISUAL PAGER TERM TERM_PROGRAM COLORTERM SHELL SHLVL PWD OLDPWD MAIL
    HOSTNAME HOST PORT DEBUG TMPDIR TZ DISPLAY LC_ALL LC_CTYPE LS_COLORS XDG_RUNTIME_DIR XDG_SESSION_ID XDG_CONFIG_HOME
    XDG_DATA_DIRS SSH_AUTH_SOCK SSH_AGENT_PID SSH_CONNECTION SSH_CLIENT SSH_TTY DBUS_SESSION_BUS_ADDRESS WINDOWID
    VIRTUAL_ENV CONDA_PREFIX PYTHONPATH PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PIP_INDEX_URL HTTP_PROXY
    HTTPS_PROXY NO_PROXY ALL_PROXY JAVA_HOME GOPATH CARGO_HOME NODE_ENV NVM_DIR NPM_TOKEN CI GITHUB_ACTIONS GITHUB_SHA
    GITHUB_REF GITHUB_PATH GITHUB_WORKSPACE GITHUB_REPOSITORY GH_TOKEN GITLAB_TOKEN AWS_ACCESS_KEY_ID AWS_REGION
    AWS_SECRET_ACCESS_KEY AZURE_CLIENT_ID OPENAI_API_KEY OPENAI_BASE_URL ANTHROPIC_API_KEY HF_HOME HF_TOKEN DATABASE_URL
    REDIS_DB REDIS_TLS_URL CELERY_BROKER_URL POSTGRES_PASSWORD DOCKER_HOST KUBECONFIG KUBERNETES_SERVICE_HOST SECRET_KEY
    KUBERNETES_PORT SYSTEMD_EXEC_PID INVOCATION_ID JOURNAL_STREAM RUST_LOG LOG_FORMAT LOG_DIR API_KEY API_URL
    REQUEST_TIMEOUT HTTP_USER_AGENT BLOB_READ_WRITE_TOKEN RQ_REDIS_URL APP_LOG_LEVEL MAKELEVEL MAKEFLAGS
"""


def test_common_environment_is_left_alone() -> None:
    """Names that shells, desktops, build machines and other programs set are nobody's typos."""
    assert misnamed([], COMMON.split(), KNOWN) == {}


def test_settings_themselves_are_no_typos() -> None:
    """Every name of .env.example is known."""
    names = [line.partition("=")[0] for line in (ROOT / ".env.example").read_text().splitlines() if "=" in line[:40]]
    ours = [name for name in names if name.isupper()]

    assert len(ours) > 40
    assert misnamed(ours, ours, KNOWN) == {}


WARNING = "WARNING [settings] ⚠️ FETCH_ALLOWED_HOST is not a setting; did you mean FETCH_ALLOWED_HOSTS?\n"
"""What follows the time."""


def test_reported_once_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second set-up of the log, as jobs make it, logs nothing new."""
    monkeypatch.setenv("FETCH_ALLOWED_HOST", "x")
    monkeypatch.setattr(logs, "_reported", set())
    stream = io.StringIO()
    for _ in range(2):
        logs.configure(Settings(), stream)

    assert stream.getvalue()[20:] == WARNING


def test_not_reported_again_by_started_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the process that started this one has reported is left out; anything else is reported."""
    monkeypatch.setenv("FETCH_ALLOWED_HOST", "x")
    monkeypatch.setenv("EMBEDER", "none")
    monkeypatch.setenv(logs.REPORTED_VARIABLE, "FETCH_ALLOWED_HOST,LOG_LEVELL")
    monkeypatch.setattr(logs, "_reported", set())
    stream = io.StringIO()
    logs.configure(Settings(), stream)

    assert stream.getvalue()[20:] == "WARNING [settings] ⚠️ EMBEDER is not a setting; did you mean EMBEDDER?\n"
    assert logs.reported_environment()[logs.REPORTED_VARIABLE] == "EMBEDER,FETCH_ALLOWED_HOST,LOG_LEVELL"


@pytest.mark.parametrize(("value", "expected"), [("9.5", 9.5), ("", 5.0), (None, 7.0)])
def test_environment_wins_over_the_file(
    value: str | None, expected: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value of the environment beats the file's; an empty one means the default, not the file's."""
    (tmp_path / ".env").write_text("FETCH_HOST_GAP_SECONDS=7\nFETCH_CONCURRENCY=3\n")
    monkeypatch.setattr(Settings, "env_file", tmp_path / ".env")
    if value is not None:
        monkeypatch.setenv("FETCH_HOST_GAP_SECONDS", value)

    assert (load().fetch_host_gap_seconds, load().fetch_concurrency) == (expected, 3)


@pytest.mark.parametrize("command", ["scripts.status", "workers.timer"])
def test_every_process_warns(command: str, tmp_path: Path) -> None:
    """One line at the start of a script and of a worker; not an error."""
    environment = {"PATH": os.environ["PATH"], "REDIS_URL": "redis://127.0.0.1:1/0", "FETCH_ALLOWED_HOST": "x"}
    words = [sys.executable, "-m", command, *(["--once"] if command.startswith("workers") else [])]
    with subprocess.Popen(words, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        process.kill()

    assert first[20:] == WARNING
