"""The guarded fetcher, politeness, robots.txt."""
