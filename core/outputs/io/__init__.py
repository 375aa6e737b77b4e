"""The part of outputs that touches the world."""
