"""Feeds: parse them, extract links, decide the next poll."""
