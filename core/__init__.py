"""Freshet's core: files here are pure; folders here touch the world."""
