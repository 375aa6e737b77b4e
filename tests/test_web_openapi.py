"""The OpenAPI document and the documentation say what the route table says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from core.settings import ROOT
from workers.web import openapi
from workers.web.routes import ROUTES

DOCUMENT = openapi.document(ROUTES)
OPERATIONS = [(path, method, one) for path, methods in DOCUMENT["paths"].items() for method, one in methods.items()]


def test_document_is_valid() -> None:
    """It keeps to OpenAPI 3.1."""
    assert DOCUMENT["openapi"].startswith("3.1")
    assert [str(error) for error in OpenAPIV31SpecValidator(DOCUMENT).iter_errors()] == []


def test_every_route_is_there_once() -> None:
    """One operation for each route, each with an id of its own, and no other."""
    assert sorted((path, method.upper()) for path, method, _ in OPERATIONS) == sorted(
        (route.path, route.method) for route in ROUTES
    )
    assert len({one["operationId"] for _, _, one in OPERATIONS}) == len(OPERATIONS)


def test_routes_say_what_they_do() -> None:
    """Summaries are sentences; parameters of the path are fields of the request."""
    for route in ROUTES:
        assert re.match(r"[A-Z].*\.$", route.summary), route.path
        assert set(route.path_fields) <= set(route.request.model_fields), route.path
        assert route.answer or route.other_types, route.path


def test_requests_are_strict() -> None:
    """No request model takes a field that it does not know, or a value of another type."""
    for route in ROUTES:
        assert route.request.model_config["extra"] == "forbid", route.path
        assert route.request.model_config["strict"] is True, route.path


def schemas(part: Any) -> Iterator[dict[str, Any]]:
    """Every schema with examples in the document."""
    if isinstance(part, dict):
        if "examples" in part and isinstance(part["examples"], list):
            yield part
        for one in part.values():
            yield from schemas(one)
    elif isinstance(part, list):
        for one in part:
            yield from schemas(one)


def test_examples_fit_their_schemas() -> None:
    """Whoever copies an example sends something valid."""
    found = list(schemas(DOCUMENT["components"]["schemas"]))
    for schema in found:
        for example in schema["examples"]:
            OAS31Validator(schema).validate(example)
    parameters = [one for _, _, operation in OPERATIONS for one in operation["parameters"] if "examples" in one]
    for one in parameters:
        for example in one["examples"].values():
            OAS31Validator(one["schema"]).validate(example["value"])

    assert found
    assert parameters


def test_references_lead_somewhere() -> None:
    """Every $ref names a component, and every schema is used."""
    text = str(DOCUMENT)
    named = set(re.findall(r"#/components/schemas/([\w.-]+)", text))

    assert named == set(DOCUMENT["components"]["schemas"])


@pytest.mark.parametrize("route", [route for route in ROUTES if route.is_destructive], ids=lambda route: route.path)
def test_destructive_routes_are_no_get(route: Any) -> None:
    """What changes something is POST, PUT or DELETE."""
    assert route.method in ("POST", "PUT", "DELETE")


def test_documentation_has_every_route() -> None:
    """docs/api.md has a row with the summary of each route, and no other."""
    page = (ROOT / "docs" / "api.md").read_text()
    rows = set(re.findall(r"^\| `(?:GET|POST|PUT|DELETE) /[^`]*` \|.*$", page, re.M))
    expected = {f"| `{route.method} {route.path}` | {route.summary} |" for route in ROUTES}

    assert sorted(rows - expected) == []
    assert sorted(expected - rows) == []  # rows to be added
