"""The steps of a crawl by name, in order; a run may do all of them or one."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class StepName(StrEnum):
    DOWNLOAD = "download"
    """Bring what has changed to this disk."""
    PROCESS = "process"
    """Make files to embed of what was downloaded."""
    EMBED = "embed"
    """Register and read the files, and bring the vector store up to date."""


ALL_STEPS = tuple(StepName)
STEPS = "steps"
"""The parameter of a run that names its steps, with commas between them; without it, all."""


def steps_of(parameters: Mapping[str, str]) -> frozenset[StepName]:
    """Return the steps that a run with these parameters does; names that there are not are left out."""
    named = {word.strip() for word in str(parameters.get(STEPS, "")).split(",")}
    return frozenset(name for name in ALL_STEPS if name in named) or frozenset(ALL_STEPS)
