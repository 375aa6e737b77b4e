"""The part of search that touches the world."""
