"""Pages without scripts, made without templates: the API at /docs, and the answer of a crawler route."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from html import escape
from typing import Any

from workers.web.crawler_models import CrawlerAnswer
from workers.web.openapi import Schema


def _page(title: str, body: str) -> str:
    """Return a page; `body` is HTML that was escaped where it had to be."""
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}</title><link rel='stylesheet' href='/static/api.css'></head>"
        f"<body><main><h1>{escape(title)}</h1>\n{body}\n</main></body></html>\n"
    )


# ── the API ──


def docs_page(document: Schema) -> str:
    parts = [f"<p>{escape(document['info']['description'])} <a href='/openapi.json'>OpenAPI 3.1</a></p>"]
    for tag in (one["name"] for one in document["tags"]):
        parts.append(f"<h2>{escape(tag)}</h2>")
        for path, methods in document["paths"].items():
            parts += [_operation(path, method, one) for method, one in methods.items() if tag in one["tags"]]
    return _page("Freshet: HTTP API", "\n".join(parts))


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    rows = "".join(_row(one["name"], one["in"], one) for one in operation["parameters"])
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        required = content["schema"].get("required", [])
        properties = content["schema"].get("properties", {})
        rows += "".join(
            _row(name, "body", {"schema": one, "required": name in required, "description": one.get("description", "")})
            for name, one in properties.items()
        ) or _row(kind, "body", {"schema": content["schema"], "required": True})
    table = f"<table><tr><th>name<th>in<th>type<th>meaning</tr>{rows}</table>" if rows else ""
    about = f"<p>{escape(operation['description'])}</p>" if "description" in operation else ""
    heading = f"<h3 id='{operation['operationId']}'><code>{method.upper()} {escape(path)}</code></h3>"
    return f"<section>{heading}<p>{escape(operation['summary'])}</p>{about}{table}</section>"


def _row(name: str, place: str, parameter: dict[str, Any]) -> str:
    needed = " (required)" if parameter.get("required") else ""
    meaning = escape(parameter.get("description", ""))
    kind = escape(_type(parameter["schema"]))
    return f"<tr><td><code>{escape(name)}</code>{needed}<td>{place}<td>{kind}<td>{meaning}</tr>"


def _type(schema: Schema) -> str:
    if "enum" in schema:
        words = " | ".join(map(str, schema["enum"]))
    elif "anyOf" in schema:
        words = " | ".join(_type(one) for one in schema["anyOf"] if one.get("type") != "null")
    elif "$ref" in schema:
        words = str(schema["$ref"]).rpartition("/")[2]
    else:
        words = str(schema.get("type", "any"))
    default = schema.get("default")
    return f"{words} = {default}" if default not in (None, "") else words


# ── a crawler route ──


def crawl_page(answer: CrawlerAnswer) -> str:
    parts = [f"<p>{escape(answer.message)}</p>"]
    if answer.items is not None:
        parts.append(f"<p>Items: {answer.items:,}</p>")
    if answer.removed is not None:
        parts.append(f"<p>Removed: {answer.removed:,}; remaining: {answer.remaining:,}</p>")
    parts += [_table(asdict(job).items()) for job in answer.jobs]
    parts += [_table(one.model_dump(mode="json").items()) for one in answer.preview]
    parts += [f"<p><a href='/v2/jobs/{escape(job.id)}'>/v2/jobs/{escape(job.id)}</a></p>" for job in answer.jobs]
    dry = " (dry run)" if answer.dry_run else ""
    return _page(f"{answer.action}{dry}: {answer.domain_id}", "\n".join(parts))


def _table(rows: Iterable[tuple[str, object]]) -> str:
    cells = "".join(f"<tr><th>{escape(name)}<td>{escape(_text(value))}</tr>" for name, value in rows)
    return f"<table>{cells}</table>"


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    return "–" if value in (None, "") else str(value)
