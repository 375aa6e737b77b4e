"""Why is a URL there, or not? Its whole trail: who lists it, what became of it, what happens next.

python -m scripts.why URL|PATH|ID|UID [--json] [--ask]
    --json   for programs
    --ask    fetch the robots.txt of its site, unless it is stored; else nothing is requested

Examples:
    python -m scripts.why https://example.org/news/flood
    python -m scripts.why url_abcdefghijklmnopqrstuvwxyz --json

✓ passed   ✗ stopped here   … waits   ? the store does not say   · does not apply
Changes nothing.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from core.registry.why_verdict import Outcome, StationState, Trail
from core.urls.secrets import redact
from scripts import command_line
from scripts.command_names import as_typed

_MARKS = {
    StationState.PASSED: "✓",
    StationState.STOPPED: "✗",
    StationState.WAITING: "…",
    StationState.UNKNOWN: "?",
    StationState.NOT_APPLICABLE: "·",
}
_FOUND = (Outcome.FOUND, Outcome.ELSEWHERE, Outcome.FEED)


async def why(name: str, *, as_json: bool, ask: bool) -> int:
    """Print the trail; exit code 1 if it is not there."""
    from core.registry.io.why_fetch_reader import ask_robots
    from core.registry.io.why_trail_reader import explain_url
    from core.store import connect

    async with command_line.open_session() as (settings, keys, client):
        if ask:
            await ask_robots(client, keys, settings, name.strip())
        trail = await explain_url(client, keys, settings, name, await connect.now(client))
    command_line.answer(trail.to_json(), "\n".join(lines(trail)), as_json=as_json)
    return 0 if trail.outcome in _FOUND else 1


def lines(trail: Trail) -> Iterator[str]:
    """Return the trail for people: the verdict first, then a line for each station."""
    yield redact(trail.verdict)
    if trail.advice:
        yield f"→ {as_typed(redact(trail.advice))}"
    yield ""
    yield redact(trail.url or trail.name)
    if trail.uid or trail.item_id:
        yield "  ".join(filter(None, (f"uid {trail.uid}" if trail.uid else "", trail.item_id)))
    yield ""
    width = max(len(station.name) for station in trail.stations)
    for station in trail.stations:
        yield f"{_MARKS[station.state]} {station.name:<{width}}  {redact(station.sentence)}"


def main() -> int:
    parser = command_line.parser("python -m scripts.why", __doc__)
    parser.add_argument("name", metavar="URL|PATH|ID|UID")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--ask", action="store_true", help="fetch robots.txt, unless it is stored")
    options = parser.parse_args()
    return command_line.run(why(_full_path(options.name), as_json=options.json, ask=options.ask))


def _full_path(name: str) -> str:
    with contextlib.suppress(OSError, ValueError):  # too long, a NUL
        return str(Path(name).absolute()) if Path(name).exists() else name
    return name


if __name__ == "__main__":
    sys.exit(main())
