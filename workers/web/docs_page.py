"""The page at /docs: every route with its parameters, as plain HTML without scripts."""

from __future__ import annotations

from html import escape
from typing import Any

from workers.web.openapi import Schema
from workers.web.page import page


def docs_page(document: Schema) -> str:
    parts = [f"<p>{escape(document['info']['description'])} <a href='/openapi.json'>OpenAPI 3.1</a></p>"]
    for tag in (one["name"] for one in document["tags"]):
        parts.append(f"<h2>{escape(tag)}</h2>")
        for path, methods in document["paths"].items():
            parts += [_operation(path, method, one) for method, one in methods.items() if tag in one["tags"]]
    return page("Freshet: HTTP API", "\n".join(parts))


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
