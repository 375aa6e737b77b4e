"""Runs: every pass is one, with progress, control and a receipt; the unified state of a knowledge base."""
