"""The ingestor dies before every Redis command it ever sends; one clean run later nothing shows it."""

from __future__ import annotations

from collections.abc import Callable

from tests.faults import crash
from tests.faults.scenario import Newsroom


async def test_crash_before_every_command_then_one_clean_run(
    newsroom: Newsroom, full: bool, record_property: Callable[[str, object], None]
) -> None:
    """Whatever the command before which it died, the store is sound at once, and one clean run brings it where an
    undisturbed run would be, totals included. Nothing heals in between; only the leases end."""
    points = 0
    for point in crash.every_point(1 if full else 9):
        await newsroom.rewind()
        with point:
            await newsroom.run()
        broken = await newsroom.check(is_settled=False)
        if point.is_dead:
            await newsroom.let_leases_end()
            await newsroom.run()

        assert broken == [], point
        assert await newsroom.inconsistencies("ingest_last_run") == "", point
        points += point.is_dead
    record_property("crash_points", points)

    assert points > (100 if full else 11)
