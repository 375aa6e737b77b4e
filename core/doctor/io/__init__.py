"""The part of doctor that touches the world."""
