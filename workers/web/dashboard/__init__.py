"""The dashboard: pages for people, rendered on the server from the same handlers that the HTTP API has."""
