"""The path of a request below `_api` as steps: `Web/getList('/sites/a/b')/items` is three.

Names are compared without case; quotes inside quotes are doubled; an argument may be named (`DecodedUrl='…'`) or typed
(`guid'…'`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

STEP = re.compile(r"/?(?P<name>[^/('\"]+)(?:\((?P<argument>(?:[^'()]|'(?:[^']|'')*')*)\))?(?=/|$)")
ARGUMENT = re.compile(r"(?:@?\w+\s*=\s*)?(?:guid)?'(?P<text>(?:[^']|'')*)'|(?P<number>-?\d+)")


@dataclass(frozen=True, slots=True)
class Step:
    """A name in lower case, with its argument if it has one."""

    name: str
    argument: str | None = None


def parse(path: str) -> list[Step] | None:
    """Return the steps of a decoded path; None if it is none."""
    steps: list[Step] = []
    position = 0
    while position < len(path.rstrip("/")):
        match = STEP.match(path, position)
        if match is None:
            return None
        argument = match["argument"]
        found = ARGUMENT.fullmatch(argument.strip()) if argument else None
        if argument and found is None:
            return None
        text = None if found is None else found["number"] or (found["text"] or "").replace("''", "'")
        steps.append(Step(match["name"].lower(), text))
        position = match.end()
    return steps
