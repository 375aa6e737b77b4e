"""The HTTP API: one route table (`routes`), from which the server, the OpenAPI document and the docs page are made."""
