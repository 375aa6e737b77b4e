"""The arithmetic of `./scripts/bench growth`, and that docs/performance.md shows what was measured."""

from __future__ import annotations

import math
import re
import subprocess

import pytest

from bench import growth
from bench.harness import ROOT, table


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_exponent_of_a_power(power: float) -> None:
    """The fit finds the exponent of values that grow by a power."""
    values = {size: 3.0 * size**power for size in growth.sizes_up_to(1_000_000)}

    assert math.isclose(growth.exponent(values), power, abs_tol=1e-9)
    assert math.isclose(growth.last_slope(values), power, abs_tol=1e-9)


def test_last_step_ignores_the_start_of_a_process() -> None:
    """A constant at the beginning flattens the fit, and not the last step."""
    values = {size: 1.0 + size / 1_000 for size in growth.sizes_up_to(1_000_000)}

    assert growth.exponent(values) < 0.95 < growth.last_slope(values) < 1.0


def test_tables_line_up() -> None:
    """Words stand to the left and figures to the right."""
    text = table(["step", "CPU s"], [["poll", "0.5"], ["no-op", "12"]])

    assert text.splitlines() == ["| step  | CPU s |", "| ----- | ----: |", "| poll  |   0.5 |", "| no-op |    12 |"]


def test_unknown_benchmark_is_a_sentence() -> None:
    """A name that is none is told at once, before anything is installed."""
    done = subprocess.run(["bash", "scripts/bench", "nothing"], cwd=ROOT, capture_output=True, text=True, timeout=30)

    assert done.returncode == 2
    assert done.stderr.startswith("There is no benchmark nothing. There are: feeds ")


def test_page_shows_what_was_measured() -> None:
    """The table of docs/performance.md is what `python -m bench.growth --table` writes."""
    assert growth.growth_table(growth.read_figures()) in (ROOT / "docs" / "performance.md").read_text()


def test_every_benchmark_of_the_page_exists() -> None:
    """`./scripts/bench NAME` of docs/performance.md names a module, and the script takes that name."""
    named = set(re.findall(r"`\./scripts/bench ([a-z_]+)", (ROOT / "docs" / "performance.md").read_text()))
    lists = re.findall(r"^(?:all|others)=\(([^)]+)\)", (ROOT / "scripts" / "bench").read_text(), re.M)

    assert len(named) >= 10
    assert named - {name for names in lists for name in names.split()} == set()
    assert {name for name in named if not (ROOT / "bench" / f"{name}.py").is_file()} == set()
