"""What the processes of every day import before they begin: their start is a part of each small refresh."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NEEDLESS = {"pydantic", "tqdm", "numpy", "lxml", "selectolax"}
"""Models for what people write, a progress bar, and the libraries of search and of the parse children."""


@pytest.mark.parametrize("module", ["workers.timer", "workers.jobs", "workers.canonical_fetcher", "scripts.domain"])
def test_refresh_starts_without_what_it_does_not_use(module: str) -> None:
    """Timer, jobs, canonical fetcher and a crawl from the shell import neither models nor libraries of search."""
    code = f"import sys, {module}; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)

    assert NEEDLESS.isdisjoint(told.stdout.split())
