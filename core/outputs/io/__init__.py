"""The part of runs that touches the world."""
