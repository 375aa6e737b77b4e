"""The part of sources that touches the world."""
