"""What may be a vector: as anybody may have written it into Redis, it is looked at before it is compared."""

from __future__ import annotations

import math
import struct

MOST_DIMENSIONS = 65_536
TOLERANCE = 0.01
"""Of a length of 1, which every embedder gives its vectors."""


def is_valid(vector: bytes, dimension: int) -> bool:
    """Is it float32, little-endian, of so many dimensions and of length 1? Then it is also finite."""
    if not vector or len(vector) != 4 * dimension:
        return False
    # NaN and infinity make the length NaN or infinite, and no comparison with that is true.
    return abs(math.hypot(*struct.unpack(f"<{dimension}f", vector)) - 1) <= TOLERANCE
