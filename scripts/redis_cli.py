"""Send commands to the store as redis-cli does, without typing an address or a password.

./scripts/redis-cli [ARGUMENT …]             redis-cli or valkey-cli if one is installed; else a small one of our own
python -m scripts.redis_cli SMEMBERS rss:categories
python -m scripts.redis_cli < commands.txt

The password goes through the environment, never through a command line, which everybody can read.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

import redis
from redis.exceptions import RedisError, ResponseError

from core.errors import FreshetError
from core.runtime.terminal import echo
from core.settings import load
from core.store import connect, redis_health
from scripts.command_names import as_typed

PROGRAMS = ("redis-cli", "valkey-cli")


def main() -> int:
    arguments = sys.argv[1:]
    try:
        settings = load()
        url = connect.url_of(settings)
        client = connect.open_bytes(settings, url)  # says what is wrong with the URL, if something is
    except FreshetError as error:
        echo(error, file=sys.stderr)
        return 2
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program and "+" not in urlsplit(url).scheme:  # it finds neither a Sentinel's master nor a slot's
        words, environment = command(url)
        os.execvpe(program, [program, *words, *arguments], os.environ | environment)  # noqa: S606 - no shell
    try:
        return speak(client, arguments)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # `… | head` has seen enough
        return 0
    except KeyboardInterrupt:
        return 130
    except (RedisError, OSError) as error:
        echo(redis_health.explain(error, url), file=sys.stderr)
        return 2


def command(url: str) -> tuple[list[str], dict[str, str]]:
    """Return the options of redis-cli for a URL, and what goes into its environment."""
    parts = urlsplit(url)
    words = []
    if parts.scheme == "unix":
        words += ["-s", unquote(parts.path)]
    else:
        words += ["-h", parts.hostname or "127.0.0.1", "-p", str(parts.port or 6379)]
        words += ["-n", parts.path.strip("/") or "0"]
    if parts.scheme == "rediss":
        words.append("--tls")
    if parts.username:
        words += ["--user", unquote(parts.username)]
    return words, {"REDISCLI_AUTH": unquote(parts.password)} if parts.password else {}


# ── our own ──


def speak(client: redis.Redis, arguments: list[str]) -> int:
    """Send one command, or those of standard input line by line; the exit code."""
    if arguments in (["-h"], ["--help"]):
        echo(as_typed(__doc__ or "").strip())
        return 0
    if arguments and arguments[0].startswith("-"):
        echo("Options need redis-cli itself, which is not installed; without options commands work.", file=sys.stderr)
        return 2
    client.response_callbacks.clear()  # answers as the server gives them
    lines = [arguments] if arguments else _typed()
    return max((_send(client, words) for words in lines if words), default=0)


def _typed() -> Iterable[list[str]]:
    while True:
        try:
            yield shlex.split(input("> " if sys.stdin.isatty() else ""))
        except EOFError:
            return


def _send(client: redis.Redis, words: list[str]) -> int:
    try:
        answer = client.execute_command(*map(os.fsencode, words))
    except ResponseError as error:
        echo(f"(error) {error}")
        return 1
    for line in shown(answer):
        echo(line)
    return 0


def shown(answer: object) -> Iterable[str]:
    """Yield the lines of an answer as redis-cli prints them into a pipe."""
    if isinstance(answer, dict):
        for name, value in answer.items():
            yield from shown(name)
            yield from shown(value)
    elif isinstance(answer, list | tuple | set | frozenset):
        for value in answer:
            yield from shown(value)
    elif isinstance(answer, bytes):
        yield answer.decode("utf-8", "backslashreplace")
    elif isinstance(answer, float):
        yield f"{answer:.17g}"
    elif isinstance(answer, bool):
        yield "OK" if answer else "0"
    else:
        yield "" if answer is None else str(answer)


if __name__ == "__main__":
    sys.exit(main())
