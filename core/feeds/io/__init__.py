"""The part of feeds that touches the world."""
