"""The part of registry that touches the world."""
