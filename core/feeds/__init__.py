"""Feeds: bytes to entries to links, and a feed's state."""
