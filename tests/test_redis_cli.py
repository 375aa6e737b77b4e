"""`./scripts/redis-cli`, and every recipe of docs/keys.md that uses it."""

from __future__ import annotations

import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis as sync_redis

from core.store import connect, embedded
from scripts import redis_cli
from tests import ports, recipes
from tests.recipes import run

ROOT = Path(__file__).parents[1]
PASSWORD = "s3cret-S3CRET_s3cret"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a shell beside a running `up`; no redis-cli on PATH."""
    home = tmp_path_factory.mktemp("data")
    server = embedded.start(home / "redis", ports.take(), PASSWORD)
    connect.write_url(home, server.url)
    with sync_redis.Redis.from_url(server.url) as client:
        client.sadd("rss:feeds:sample_news", "http://127.0.0.1:8765/feeds/news.xml")
        client.zadd("rss:article_canonical_index", {"a" * 16: 1})
        client.hset("run:r1", mapping={"status": "finished", "title": "äöü \n x"})
        client.zadd("runs", {"r1": 1.5})
        client.zadd("source:docs.docs:refs", {"file_x": 0})
    tools = home / "bin"
    tools.mkdir()
    for name in ("bash", "dirname", "cut", "sha1sum", "env", "cat", "head"):
        (tools / name).symlink_to(str(shutil.which(name)))
    yield {"PATH": str(tools), "HOME": str(home), "PERSISTENT_STORAGE_PATH": str(home)}
    server.stop()


def test_every_recipe_works(store: dict[str, str]) -> None:
    """In bash, as they stand there: none is refused, none assigns a variable that bash keeps for itself."""
    (block,) = recipes.blocks("keys.md", "Recipes")
    assert block.count(recipes.SCRIPT) > 20
    with recipes.answering(store) as environment:
        done = recipes.run(f"{recipes.ASK}set -e\n" + block.replace(recipes.SCRIPT, "ask"), environment)

    assert (done.returncode, done.stderr) == (0, "")
    assert "(error)" not in done.stdout
    assert "finished" in done.stdout


def test_no_recipe_goes_around_the_password() -> None:
    """Nothing in the documentation names a bare port."""
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        assert "redis-cli -p" not in page.read_text()
        assert "$UID" not in page.read_text()


@pytest.mark.parametrize(
    ("line", "out"),
    [
        ("PING", "PONG\n"),
        ("ZRANGE runs 0 -1 WITHSCORES", "r1\n1.5\n"),
        ("HGET run:r1 status", "finished\n"),
        ("HGET run:r1 nothing", "\n"),
        ("ZCARD runs", "1\n"),
        ("EXISTS nothing", "0\n"),
        ("SET k 'two words'", "OK\n"),
        ("GET k", "two words\n"),
    ],
)
def test_answers_are_those_of_redis_cli_in_a_pipe(line: str, out: str, store: dict[str, str]) -> None:
    """Also where redis-cli is not installed."""
    assert run(f"./scripts/redis-cli {line}", store).stdout == out


def test_commands_come_from_a_pipe_too(store: dict[str, str]) -> None:
    """Line by line; an error is told and counts."""
    done = run("printf 'PING\\nNONSENSE\\nPING\\n' | ./scripts/redis-cli", store)

    assert done.stdout.splitlines()[0::2] == ["PONG", "PONG"]
    assert done.stdout.splitlines()[1].startswith("(error)")
    assert done.returncode == 1


def test_installed_redis_cli_gets_the_password_through_its_environment(store: dict[str, str], tmp_path: Path) -> None:
    """Neither address nor password has to be typed, and the password is in no command line."""
    fake = tmp_path / "redis-cli"
    fake.write_text('#!/usr/bin/env bash\necho "$@"; echo "auth=$REDISCLI_AUTH"\n')
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    done = run("./scripts/redis-cli PING", store | {"PATH": f"{tmp_path}:{store['PATH']}"})

    words, auth = done.stdout.splitlines()
    assert re.fullmatch(r"-h 127\.0\.0\.1 -p \d+ -n 0 PING", words)
    assert auth == f"auth={PASSWORD}"


def test_options_for_a_url() -> None:
    """TLS, user, database and sockets."""
    assert redis_cli.command("rediss://me:p%23w@db.example.org:6380/2") == (
        ["-h", "db.example.org", "-p", "6380", "-n", "2", "--tls", "--user", "me"],
        {"REDISCLI_AUTH": "p#w"},
    )
    assert redis_cli.command("unix:///run/redis.sock") == (["-s", "/run/redis.sock"], {})


def test_without_a_server_it_is_a_sentence(store: dict[str, str]) -> None:
    """As every script."""
    done = run("./scripts/redis-cli PING", store | {"REDIS_URL": "redis://:hunter2@127.0.0.1:1/0"})

    assert done.returncode == 2
    assert "does not answer" in done.stderr
    assert "hunter2" not in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
