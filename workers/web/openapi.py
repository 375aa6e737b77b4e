"""The OpenAPI 3.1 document, made from the route table and the models of its routes."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Literal

from pydantic import BaseModel, TypeAdapter

from core.settings import VERSION
from workers.web.models import ErrorAnswer, adapter
from workers.web.routing import EVENT_STREAM, JSON, Route, Routes

REF = "#/components/schemas/{model}"
DESCRIPTION = "Everything that the scripts can do, over HTTP. Every error is `{error: {code, message, hint}}`."
Schema = dict[str, Any]


def document(routes: Routes) -> Schema:
    schemas = _Schemas(routes)
    paths: Schema = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Freshet", "version": VERSION, "description": DESCRIPTION},
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "tags": [{"name": tag} for tag in dict.fromkeys(route.tag for route in routes)],
        "paths": paths,
        "components": {
            "schemas": schemas.components(),
            "responses": {
                "Error": {
                    "description": "What went wrong, and what to do.",
                    "content": {JSON: {"schema": schemas.ref(ErrorAnswer)}},
                }
            },
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "API_TOKEN, if one is set"}
            },
        },
    }


class _Schemas:
    """The JSON schemas of all models, and which of them the document refers to."""

    def __init__(self, routes: Routes) -> None:
        modes: dict[tuple[type, Literal["validation", "serialization"]], None] = {}
        for route in routes:
            modes[route.request, "validation"] = None
            if route.answer:
                modes[route.answer, "serialization"] = None
        modes[ErrorAnswer, "serialization"] = None
        asked = [(kind, mode, adapter(kind)) for kind, mode in modes]
        self._refs, found = TypeAdapter.json_schemas(asked, ref_template=REF)
        self._defs: Schema = found["$defs"]
        # Values of core that clients know by another name (`shown`).
        titles = {name: schema.get("title", name) for name, schema in self._defs.items()}
        self._defs = {titles[name]: _renamed(schema, titles) for name, schema in self._defs.items()}
        self._refs = {key: _renamed(ref, titles) for key, ref in self._refs.items()}
        self._inlined: set[str] = set()

    def ref(self, model: type) -> Schema:
        return dict(self._refs[model, "serialization"])

    def request(self, model: type[BaseModel]) -> Schema:
        """Return the schema of a request, whose fields are written out as parameters or as a body."""
        name = str(self._refs[model, "validation"]["$ref"]).rpartition("/")[2]
        self._inlined.add(name)
        return dict(self._defs[name])

    def components(self) -> Schema:
        """Return all schemas but those that are written out where they are used."""
        return {name: schema for name, schema in sorted(self._defs.items()) if name not in self._inlined}


def _renamed(schema: Any, titles: Mapping[str, str]) -> Any:
    """Return a schema that refers to others by their titles."""
    if isinstance(schema, list):
        return [_renamed(one, titles) for one in schema]
    if not isinstance(schema, dict):
        return schema
    renamed = {key: _renamed(one, titles) for key, one in schema.items()}
    if isinstance(name := schema.get("$ref"), str):
        renamed["$ref"] = REF.format(model=titles[name.rpartition("/")[2]])
    return renamed


def _operation(route: Route[Any], schemas: _Schemas) -> Schema:
    request = schemas.request(route.request)
    contents, error = _contents(route, schemas), {"$ref": "#/components/responses/Error"}
    answers = {str(one): {"description": HTTPStatus(one).phrase, "content": contents} for one in route.statuses}
    operation: Schema = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": _parameters(route, request),
        "responses": {**answers, "4XX": error, "5XX": error},
    }
    if route.description:
        operation["description"] = route.description
    if route.is_public:
        operation["security"] = []
    if route.takes_body:
        operation["requestBody"] = _body(route, request)
    return operation


def _parameters(route: Route[Any], request: Schema) -> list[Schema]:
    required = request.get("required", [])
    parameters = []
    for name, schema in request.get("properties", {}).items():
        is_path = name in route.path_fields
        if not is_path and route.fields_in == "body":
            continue
        shown = {key: value for key, value in schema.items() if key not in ("title", "description", "examples")}
        parameter: Schema = {"name": name, "in": "path" if is_path else "query", "schema": shown}
        parameter["required"] = is_path or name in required
        if "description" in schema:
            parameter["description"] = schema["description"]
        if "examples" in schema:
            parameter["examples"] = {str(value): {"value": value} for value in schema["examples"]}
        parameters.append(parameter)
    return parameters


def _body(route: Route[Any], request: Schema) -> Schema:
    if route.body_type != JSON:
        return {"required": True, "content": {route.body_type: {"schema": {"type": "string"}}}}
    kept = {name: one for name, one in request.get("properties", {}).items() if name not in route.path_fields}
    required = [name for name in request.get("required", []) if name in kept]
    schema = {**request, "properties": kept, "required": required}
    if not required:
        schema.pop("required")
    return {"required": bool(required), "content": {JSON: {"schema": schema}}}


def _contents(route: Route[Any], schemas: _Schemas) -> Schema:
    contents: Schema = {JSON: {"schema": schemas.ref(route.answer)}} if route.answer else {}
    for kind in route.other_types:
        # A tool would read a schema of the stream as that of each event.
        name = "object" if kind.endswith(("/json", "+json")) else "string"
        contents[kind] = {} if kind == EVENT_STREAM else {"schema": {"type": name}}
    return contents
