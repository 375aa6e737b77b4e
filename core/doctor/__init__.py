"""Checks of the store's invariants, and their repair."""
