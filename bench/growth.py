"""How does the work grow with feeds, links, items and chunks? `./scripts/bench growth [KIND …] [--quick | --full]`

Sizes from 1,000 up, ten times as many each time, all sizes in turn and that several times; of each the median. CPU is
ours and the server's together. The exponent is the slope of the line through all medians with both axes logarithmic;
beside it the slope of the last tenfold step, since the start of a process flattens the beginning. The output of a step
must be the same every time. Figures go to `bench/results/growth.json`, a chart of each kind beside it; those of
--quick, --most and --turns to `bench/results/quick/`.

Polls and visits: up to 10,000, with --quick 1,000, with --full a million. Everything else: up to a million, with
--quick 10,000.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import redis

from bench.growth_steps import KINDS, Place
from bench.harness import ROOT, Spent, machine, serving, spending, table, write_part
from core.store import embedded

RESULTS = ROOT / "bench" / "results"
GOAL = 1.05
HOSTS = 100
REPETITIONS = {1_000: 5, 10_000: 3, 100_000: 2}
"""How often a size is measured; larger ones once."""
Samples = dict[str, dict[int, list[Spent]]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench growth", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], help="which kinds; all without")
    parser.add_argument("--quick", action="store_true", help="up to 10,000, each size once")
    parser.add_argument("--full", action="store_true", help="a million of everything: hours")
    parser.add_argument("--most", type=int, help="the largest size")
    parser.add_argument("--work", type=int, help="the largest size of what takes long")
    parser.add_argument("--turns", type=int, help="how often all sizes are measured, at most; larger ones less often")
    parser.add_argument("--table", action="store_true", help="measure nothing, write what was into docs/")
    given = parser.parse_args()
    most = given.most or (10_000 if given.quick else 1_000_000)
    work = given.work or (1_000 if given.quick else most if given.full else 10_000)
    logging.disable(logging.WARNING)
    # What was measured for docs/ is not overwritten by a look at a few sizes.
    is_partial = given.quick or most < 1_000_000 or given.turns is not None
    folder = RESULTS / "quick" if is_partial and not given.table else RESULTS
    for kind in () if given.table else given.kinds or KINDS:
        turns = given.turns or (1 if given.quick else max(REPETITIONS.values()))
        for samples in measured_kind(kind, most, work, turns):
            save(kind, samples, folder)
    print_tables(folder)
    if given.table:
        figures = read_figures()
        machines = {f"Measured on {one['machine']}." for one in figures.values()}
        write_part("performance.md", "growth", "\n".join((growth_table(figures), "", *sorted(machines))))


def sizes_up_to(most: int) -> list[int]:
    """1,000, 10,000 and so on."""
    return [10**power for power in range(3, 9) if 10**power <= most]


def measured_kind(kind: str, most: int, work: int, turns: int) -> Iterator[Samples]:
    """All steps of a kind at all sizes, interleaved; yields what is known after each size."""
    samples: Samples = defaultdict(lambda: defaultdict(list))
    outputs: dict[tuple[str, int], object] = {}
    with serving("bench.web", "--hosts", str(HOSTS)) as ports:
        for turn in range(turns):
            for size in sizes_up_to(most):
                if turn < REPETITIONS.get(size, 1):
                    _run_steps(kind, size, ports, work, samples, outputs)
                    yield samples


def _run_steps(
    kind: str, size: int, ports: dict[str, int], work: int, samples: Samples, outputs: dict[tuple[str, int], object]
) -> None:
    """One turn of one size, on a server and in a folder of its own."""
    with tempfile.TemporaryDirectory() as name:
        server = embedded.start(Path(name) / "redis", embedded.free_port(0))
        try:
            # To empty a store of a million items takes longer than redis-py waits for a reply.
            with redis.Redis.from_url(server.url, decode_responses=True, socket_timeout=None) as client:
                for step, do in KINDS[kind](Place(server.url, Path(name), client, ports, work), size):
                    with spending(client) as spent:
                        output = do()
                    known = outputs.setdefault((step, size), output)
                    assert output == known, f"{kind}, {step} at {size}: {output} and {known}"
                    samples[step][size].append(spent)
                    cpu, server_cpu = spent.cpu_seconds, spent.server_cpu_seconds
                    print(f"{kind}, {step}, {size:,}: {cpu:.2f} + {server_cpu:.2f} CPU s, {spent.wall_seconds:.2f} s")
        finally:
            server.stop()


# ── figures ──


def save(kind: str, samples: Samples, folder: Path) -> None:
    """Put the medians of a kind into the file of figures, and draw it."""
    from bench.charts import draw

    figures = read_figures(folder)
    steps = {step: {str(size): _median(taken) for size, taken in by_size.items()} for step, by_size in samples.items()}
    figures[kind] = {"machine": machine(), "day": f"{datetime.now(UTC):%Y-%m-%d}", "steps": steps}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "growth.json").write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n")
    draw(kind, steps, folder / f"growth-{kind}.png")


def _median(taken: Sequence[Spent]) -> dict[str, float]:
    rows = [asdict(one) for one in taken]
    return {name: round(statistics.median(row[name] for row in rows), 6) for name in rows[0]} | {"runs": len(rows)}


def read_figures(folder: Path = RESULTS) -> dict[str, Any]:
    path = folder / "growth.json"
    return json.loads(path.read_text()) if path.is_file() else {}


def cpu_of(figures: Mapping[str, float]) -> float:
    """Ours and the server's."""
    return figures["cpu_seconds"] + figures["server_cpu_seconds"]


def exponent(values: Mapping[int, float]) -> float:
    """The slope of the least-squares line through the values, both axes logarithmic."""
    xs, ys = [math.log(size) for size in values], [math.log(max(value, 1e-6)) for value in values.values()]
    return statistics.linear_regression(xs, ys).slope if len(xs) > 1 else math.nan


def last_slope(values: Mapping[int, float]) -> float:
    """The same for the two largest sizes alone."""
    return exponent({size: values[size] for size in sorted(values)[-2:]})


def growth_rows(figures: Mapping[str, Any]) -> list[list[str]]:
    """A row for each step: CPU at its sizes, wall at the largest, exponents."""
    rows = []
    for kind in KINDS:
        for step, by_size in figures.get(kind, {}).get("steps", {}).items():
            cpu = {int(size): cpu_of(one) for size, one in by_size.items()}
            wall = {int(size): one["wall_seconds"] for size, one in by_size.items()}
            shown = [seconds(cpu[size]) if size in cpu else "" for size in sizes_up_to(1_000_000)]
            slopes = (exponent(cpu), last_slope(cpu), exponent(wall))
            rows.append([f"{kind}: {step}", *shown, seconds(wall[max(wall)]), *map(_slope, slopes)])
    return rows


def _slope(value: float) -> str:
    return "" if math.isnan(value) else f"{value + 0.0:.2f}"


def seconds(value: float) -> str:
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}" if value < 10 else f"{value:.0f}"


def growth_table(figures: Mapping[str, Any]) -> str:
    """The table of docs/performance.md."""
    heads = ["CPU s at", *(f"{size:,}" for size in sizes_up_to(1_000_000)), "wall s, last", "exponent"]
    return table([*heads, "last step", "by wall"], growth_rows(figures))


def print_tables(folder: Path) -> None:
    figures = read_figures(folder)
    print(f"\n{growth_table(figures)}\n\nGoal: at most {GOAL}; a no-op below 1.")
    for kind, one in figures.items():
        print(f"{kind}: {one['day']}, {one['machine']}")


if __name__ == "__main__":
    main()
