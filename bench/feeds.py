"""How fast do we read feeds, and do we read the same? `python -m bench.feeds [--data DIR] [--feeds N]`

CPU time of our parser, feedparser (as it comes, and without its cleaning) and fastfeedparser on the same bytes in the
same run; then feedparser's entries one by one against ours. DIR holds `real-feeds.tar.xz`; without it the feeds are
made up.
"""

from __future__ import annotations

import argparse
import io
import tarfile
import time
import warnings
from calendar import timegm
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import feedparser

from core.errors import NotAFeed
from core.feeds.parse import MAX_ENTRIES, parse_feed
from core.models import FeedEntry

DEFAULT_DATA = Path(__file__).parents[2] / "shared" / "data" / "feeds"
EXAMPLES_SHOWN = 5


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m bench.feeds", description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--data", type=Path, default=DEFAULT_DATA, help="folder with real-feeds.tar.xz")
    arguments.add_argument("--feeds", type=int, help="so many of them, from all over the list")
    given = arguments.parse_args()
    bodies = load(given.data) or made_up()
    bodies = bodies[:: max(1, len(bodies) // given.feeds)] if given.feeds else bodies
    megabytes = sum(map(len, bodies)) / 1e6
    print(f"{len(bodies)} feeds, {megabytes:.1f} MB\n")
    print_speed(bodies)
    print_agreement(bodies)


def load(folder: Path) -> list[bytes]:
    archive = folder / "real-feeds.tar.xz"
    if not archive.is_file():
        print(f"{archive} is not there: using made-up feeds")
        return []
    with tarfile.open(archive) as tar:
        files = [tar.extractfile(member) for member in tar.getmembers() if member.isfile()]
        return [file.read() for file in files if file]


def made_up(count: int = 50, items: int = 40) -> list[bytes]:
    """RSS feeds of the usual shape and size: a link, a date and a few kilobytes of HTML per item."""
    html = "<p>Water finds its <a href='/way'>way</a> &amp; takes the bank with it.</p>" * 30
    item = (
        "<item><title>Story {0}</title><link>https://example.org/{0}</link><guid>https://example.org/{0}</guid>"
        "<pubDate>Mon, 06 Jan 2025 10:{1:02}:00 GMT</pubDate><description><![CDATA[{2}]]></description></item>"
    )
    body = "".join(item.format(number, number % 60, html) for number in range(items))
    return [f"<rss version='2.0'><channel><title>{n}</title>{body}</channel></rss>".encode() for n in range(count)]


# ── speed ───────────────────────────────────────────────────────────────────────────────────────


def readers() -> dict[str, Callable[[bytes], object]]:
    found: dict[str, Callable[[bytes], object]] = {
        "freshet": lambda body: parse_feed(body, ""),
        "feedparser": lambda body: feedparser.parse(io.BytesIO(body)),
        "feedparser, no cleaning": lambda body: feedparser.parse(
            io.BytesIO(body), sanitize_html=False, resolve_relative_uris=False
        ),
    }
    try:
        import fastfeedparser
    except ImportError:
        return found
    return {**found, "fastfeedparser": lambda body: fastfeedparser.parse(body)}


def print_speed(bodies: list[bytes]) -> None:
    seconds = {name: cpu_seconds(read, bodies) for name, read in readers().items()}
    ours = seconds["freshet"]
    print(f"{'CPU':<26}{'total s':>9}{'ms/feed':>9}{'feeds/s':>9}{'x freshet':>11}")
    for name, spent in seconds.items():
        per_feed = spent / len(bodies)
        print(f"{name:<26}{spent:>9.2f}{per_feed * 1000:>9.2f}{1 / per_feed:>9.0f}{spent / ours:>11.1f}")


def cpu_seconds(read: Callable[[bytes], object], bodies: list[bytes]) -> float:
    started = time.process_time()
    for body in bodies:
        try:
            read(body)
        except Exception as exc:  # noqa: BLE001 - a peer may raise anything; its time still counts
            print(f"  {type(exc).__name__}: {str(exc)[:80]}")
    return time.process_time() - started


# ── agreement ───────────────────────────────────────────────────────────────────────────────────


def print_agreement(bodies: list[bytes]) -> None:
    """Of the links, ids and publication dates feedparser finds, how many are the same in ours."""
    found: Counter[str] = Counter()
    same: Counter[str] = Counter()
    differing: list[str] = []
    for number, body in enumerate(bodies):
        theirs = feedparser.parse(io.BytesIO(body)).entries[:MAX_ENTRIES]
        ours = entries_of(body)
        found["entries"] += len(theirs)
        same["entries"] += len(theirs) if len(theirs) == len(ours) else 0
        for their, our in zip(theirs, [*ours, *[FeedEntry()] * len(theirs)], strict=False):
            for field, (expected, got) in compared(their, our).items():
                found[field] += 1
                same[field] += expected == got
                differing += [f"feed {number} {field}: {expected!r} there, {got!r} here"] if expected != got else []
    print(f"\n{'as feedparser has it':<26}{'there':>9}{'same':>9}{'share':>10}")
    for field, count in found.items():
        print(f"{field:<26}{count:>9}{same[field]:>9}{same[field] / max(count, 1):>10.2%}")
    print("\n".join(differing[:EXAMPLES_SHOWN]))


def entries_of(body: bytes) -> tuple[FeedEntry, ...]:
    try:
        return parse_feed(body, "").entries
    except NotAFeed:
        return ()


def compared(their: Any, our: FeedEntry) -> dict[str, tuple[object, object]]:
    """Field by field what both have, where feedparser has something. FeedBurner's original link counts as its link."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        published = their.get("published_parsed")
    pairs: dict[str, tuple[object, object]] = {
        "link": (their.get("feedburner_origlink") or their.get("link"), our.link),
        "id": (their.get("id"), our.id),
        "published": (published and timegm(published), our.published_ts),
    }
    return {field: pair for field, pair in pairs.items() if pair[0]}


if __name__ == "__main__":
    main()
