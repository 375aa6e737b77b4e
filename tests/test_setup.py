"""`./scripts/setup` and the locks: what is installed is exactly what a lock names."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-bench.lock")
STUB = '#!/bin/sh\necho "$@" >> arguments.txt\necho .\n'


def pinned(lock: str) -> set[str]:
    """Names of all distributions of a lock, normalised."""
    found = re.findall(r"^([A-Za-z0-9_.-]+)(?:\[[^]]*\])?==", (ROOT / lock).read_text(), re.M)
    return {normalised(name) for name in found}


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("words", [[], ["dev"], ["bench"]])
def test_setup_leaves_nothing_to_resolve(words: list[str], tmp_path: Path) -> None:
    """pip gets every hash and no dependency to look for: pip 23 dies over `lxml[html_clean]` when it resolves."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "setup", tmp_path / "scripts" / "setup")
    for lock in LOCKS:
        shutil.copy(ROOT / lock, tmp_path / lock)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(STUB)
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    subprocess.run(["bash", "scripts/setup", *words], cwd=tmp_path, env=dict(os.environ), check=True, timeout=30)
    lines = (tmp_path / "arguments.txt").read_text().splitlines()
    installing = next(line for line in lines if "pip install" in line)

    assert "--no-deps" in installing
    assert "--require-hashes" in installing
    assert "-m core.runtime.unpack_language_model" in lines
    assert lines[-1] == "-m compileall -q core workers scripts"  # commands start a fifth quicker, see scripts/setup
    assert (tmp_path / ".venv" / "bin" / "freshet").readlink() == Path("../../freshet")


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_names_all_that_its_parts_need(lock: str) -> None:
    """Whatever a distribution of the lock requires here is in the lock too, so that --no-deps installs enough."""
    names = pinned(lock)
    missing = []
    for name in sorted(names):
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # another platform's, or another lock's
        for need in map(Requirement, needs):
            if (need.marker is None or need.marker.evaluate({"extra": ""})) and normalised(need.name) not in names:
                missing.append(f"{name} needs {need}")

    assert len(names) > 30
    assert missing == []


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_has_hashes_and_no_index(lock: str) -> None:
    """Each pin has a hash; no index address is written down."""
    text = (ROOT / lock).read_text()
    entries = re.split(r"^(?=[A-Za-z0-9_.-]+(?:\[[^]]*\])?==)", text, flags=re.M)[1:]

    assert [entry.splitlines()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert "index-url" not in text
