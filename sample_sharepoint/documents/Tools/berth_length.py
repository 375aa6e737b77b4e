"""How long a berth must be for a boat."""


def berth_length(boat_metres: float, is_exposed: bool) -> float:
    """Return the length of the berth: a tenth more, and on the exposed side two metres on top."""
    return boat_metres * 1.1 + (2.0 if is_exposed else 0.0)
