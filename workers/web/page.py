"""A small HTML page: no script, no inline style, nothing from outside."""

from __future__ import annotations

from html import escape


def page(title: str, body: str) -> str:
    """Return a page; `body` is HTML that was escaped where it had to be."""
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}</title><link rel='stylesheet' href='/static/api.css'></head>"
        f"<body><main><h1>{escape(title)}</h1>\n{body}\n</main></body></html>\n"
    )
