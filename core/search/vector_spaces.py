"""The vector spaces of a store or of a chunk, in order: that of the main model, then that of other languages.

A chunk may have a vector in each; they stand one behind the other, in the order of its spaces. Values only.
"""

from __future__ import annotations

from collections.abc import Iterable

from core.models import VectorSpace
from core.search.protocols import MOST_DIMENSIONS, Vector, is_unit_vector

SEPARATOR = "+"
"""Between names of spaces, none of which has it."""


class Spaces(tuple[VectorSpace, ...]):
    """Spaces in order; empty: there are no vectors."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """As it stands in keys and fields."""
        return SEPARATOR.join(space.name for space in self)

    @property
    def main(self) -> VectorSpace | None:
        """The space of the main model; None: there are no vectors."""
        return self[0] if self else None

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The dimension of each."""
        return tuple(space.dimension for space in self)

    def split(self, vectors: bytes) -> dict[str, Vector]:
        """Return vectors that stand one behind the other by the names of their spaces; empty if they are damaged."""
        parts: dict[str, Vector] = {}
        start = 0
        for space in self:
            part = vectors[start : start + 4 * space.dimension]
            if not is_unit_vector(part, space.dimension):
                return {}
            parts[space.name] = part
            start += 4 * space.dimension
        return parts if start == len(vectors) else {}

    def has_all(self, others: Iterable[VectorSpace]) -> bool:
        """Return whether every one of these is among ours."""
        return all(other in self for other in others)


NO_SPACES = Spaces()


def parse_spaces(name: str) -> Spaces:
    """Return the spaces of this name, as `Spaces.name` spells it; none if it is no such name."""
    spaces = [_parse(part) for part in name.split(SEPARATOR)]
    known = [space for space in spaces if space]
    return Spaces(known) if len(known) == len(spaces) else NO_SPACES


def _parse(name: str) -> VectorSpace | None:
    model, dimension, chunker = ["", "", *name.rsplit("-", 2)][-3:]
    if not (dimension.isdecimal() and 0 < int(dimension) <= MOST_DIMENSIONS and chunker.startswith("c")):
        return None
    return VectorSpace(model, int(dimension), chunker[1:])
