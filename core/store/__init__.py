"""Redis: connections, leases, commits, events."""
