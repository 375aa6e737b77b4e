"""Draw how the steps of a kind grow, with both axes logarithmic, as a PNG."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")  # no screen

from matplotlib import pyplot as plt

Steps = Mapping[str, Mapping[str, Mapping[str, float]]]


def draw(kind: str, steps: Steps, path: Path) -> None:
    """CPU as solid lines with the fitted exponent in the legend, wall time dashed, and a line that grows linearly."""
    from bench.growth import cpu_of, exponent

    figure, axes = plt.subplots(figsize=(8, 5.5))
    lowest = min(cpu_of(one) for by_size in steps.values() for one in by_size.values())
    for step, by_size in steps.items():
        sizes = sorted(map(int, by_size))
        cpu = {size: cpu_of(by_size[str(size)]) for size in sizes}
        label = f"{step}: exponent {exponent(cpu):.2f}" if len(sizes) > 1 else step
        (line,) = axes.plot(sizes, list(cpu.values()), marker="o", label=label)
        wall = [by_size[str(size)]["wall_seconds"] for size in sizes]
        axes.plot(sizes, wall, linestyle=":", marker=".", color=line.get_color(), alpha=0.6)
    ends = (1_000, 1_000_000)
    axes.plot(ends, [lowest, lowest * ends[1] / ends[0]], color="grey", linestyle="--", linewidth=1, label="linear")
    axes.set(xscale="log", yscale="log", xlabel=kind, ylabel="seconds", title=f"Growth with {kind}")
    axes.plot([], [], color="black", linestyle=":", label="wall time (solid: CPU, ours and the server's)")
    axes.grid(which="major", alpha=0.3)
    axes.legend(fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
