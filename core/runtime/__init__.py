"""Processes: parse children, RQ, logging, progress, signals."""
