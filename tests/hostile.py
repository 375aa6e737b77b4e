"""The shared collection of hostile inputs, where it is at hand; tests that need it are skipped visibly elsewhere."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "shared" / "data" / "hostile"
needed = pytest.mark.skipif(not FOLDER.is_dir(), reason="the collection of hostile inputs is not here")


def rows(name: str, *kinds: str) -> list[Any]:
    """Parameters of a JSON Lines file, of these kinds or of all; empty where the collection is absent."""
    path = FOLDER / name
    if not path.is_file():
        return []
    found = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [pytest.param(row, id=row["id"]) for row in found if not kinds or row["kind"] in kinds]


def names() -> dict[str, list[list[str]]]:
    """What the resolver of the SSRF rows answers."""
    answers: dict[str, list[list[str]]] = json.loads((FOLDER / "dns.json").read_text(encoding="utf-8"))
    return {name.rstrip("."): lists for name, lists in answers.items()}


@cache
def maker() -> Callable[[Any], bytes]:
    """The collection's own way to turn a spec into bytes."""
    spec = importlib.util.spec_from_file_location("hostile_materialise", FOLDER / "materialise.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda body: module.make(body, cap=512)
