"""Set the interval of a feed, and the gap between requests to a host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

from core import ids
from core.errors import FeedFileError
from core.feeds.io.feed_options import FeedOptions
from core.feeds.io.subscriptions import Subscriptions
from core.registry.time_parsing import parse_duration
from core.runtime.terminal import echo
from core.urls.pace import HostPace, PaceOption, PaceScope, StoredPace, checked_host
from core.urls.secrets import redact
from scripts import command_line
from scripts.tables import span, table

DEFAULT = "default"
"""In place of a value: take the option back."""
_SET_FOR = {PaceScope.HOST: "set for the host", PaceScope.FEED: "set for a feed", PaceScope.SOURCE: "set for a source"}


async def set_options(
    what: str, interval: str | None, gap: str | None, parallel: str | None, *, as_json: bool = False
) -> int:
    """Change the options of a feed (a URL) or a host; without any, print what holds."""
    changes = changed(interval, gap, parallel)
    async with command_line.open_session() as (settings, keys, client):
        options = FeedOptions(client, keys, settings)
        subscriptions = Subscriptions(client, keys)
        if not what:
            urls = {ids.feed_id(url): redact(url) for url in await subscriptions.by_feed()}
            _print_all(
                [replace(one, name=urls.get(one.name, one.name)) for one in await options.all()], as_json=as_json
            )
            return 0
        if "://" in what:
            name = await subscriptions.require(what)
            option = await options.set_for_feed(name, changes)
        else:
            name = _host(what)
            option = await options.set_for_host(name, changes)
        pace = await options.pace_of(name)
    lines = [f"{redact(name)}: {option_text(option) or 'nothing is set'}"]
    if pace:
        lines.append(f"Requests to {pace.place}: {gap_text(pace)}")
    return command_line.answer({"name": redact(name)} | asdict(option), "\n".join(lines), as_json=as_json)


def changed(interval: str | None, gap: str | None, parallel: str | None) -> dict[str, float | None]:
    """Return the values that were given; None is one that is taken back."""
    given: Sequence[tuple[str, str | None, Callable[[str], float]]] = (
        ("interval_seconds", interval, parse_duration),
        ("gap_seconds", gap, parse_duration),
        ("parallel", parallel, _whole_number),
    )
    return {name: None if text == DEFAULT else read(text) for name, text, read in given if text is not None}


def _whole_number(text: str) -> int:
    if not text.isdecimal():
        raise FeedFileError(f"--parallel is a whole number, or {DEFAULT}.")
    return int(text)


def _host(text: str) -> str:
    try:
        return checked_host(text)
    except ValueError as error:
        raise FeedFileError(f"{error}. A feed is named by its whole URL.") from None


def _print_all(stored: Sequence[StoredPace], *, as_json: bool) -> None:
    if as_json:
        command_line.print_json([asdict(one) for one in stored])
    elif stored:
        rows = [
            (one.scope, one.name, option_text(one.option), ", ".join(one.hosts) or "–", one.origin) for one in stored
        ]
        echo(table(("SET FOR", "NAME", "WHAT", "HOSTS", "BY"), rows))
    else:
        echo("Nothing is set; every feed and host has the pace of the settings.")


def option_text(option: PaceOption) -> str:
    """Return what was set, for people: `every 15m, gap 0 s, 8 at once`."""
    words = []
    if option.interval_seconds is not None:
        words.append(f"every {span(option.interval_seconds)}")
    if option.gap_seconds is not None:
        words.append(f"gap {option.gap_seconds:g} s")
    if option.parallel is not None:
        words.append(f"{option.parallel} at once")
    return ", ".join(words)


def gap_text(pace: HostPace) -> str:
    """Return the pace of a host, for people, and where it comes from."""
    at_once = f"{pace.parallel} at once" if pace.parallel else "any number at once"
    origin = _SET_FOR[pace.set_for] if pace.set_for else "as the settings say"
    return f"gap {pace.gap_seconds:g} s ({origin}), {at_once}"
