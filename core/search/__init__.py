"""Chunks, ranking, results."""
