"""A tool as a declared value: what clients are shown and what is called are made from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_type_hints

import mcp_types as types
from pydantic import BaseModel

from workers.web.models import adapter
from workers.web.routing import StoreCall, request_of

R = TypeVar("R", bound=BaseModel)
A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDeclaration(Generic[R, A]):
    """One tool: its arguments, its answer and what it does to the store."""

    name: str
    title: str
    description: str
    request: type[R]
    answer: type[A]
    handler: Callable[[StoreCall, R], Awaitable[A]]
    readable: Callable[[A, float], str]
    """The answer as text for a reader, at this time."""
    is_read_only: bool = True
    is_destructive: bool = False
    is_idempotent: bool = True
    is_open_world: bool = False
    """Whether it reaches beyond this store, e.g. to web servers."""

    def listed(self) -> types.Tool:
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=self.request.model_json_schema(),
            output_schema=adapter(self.answer).json_schema(mode="serialization"),
            annotations=types.ToolAnnotations(
                title=self.title,
                read_only_hint=self.is_read_only,
                destructive_hint=self.is_destructive,
                idempotent_hint=self.is_idempotent,
                open_world_hint=self.is_open_world,
            ),
        )


def tool(handler: Callable[[StoreCall, Any], Awaitable[Any]], **told: Any) -> ToolDeclaration[Any, Any]:
    """Declare a handler as a tool. Its annotations say what it takes and answers, unless `told` does."""
    found = {"request": request_of(handler), "answer": get_type_hints(handler)["return"], "handler": handler}
    return ToolDeclaration(**{**found, **told})
