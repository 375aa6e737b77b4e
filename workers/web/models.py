"""Base classes of the request and response models, and the models that several routes share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, WithJsonSchema

from core.sources.domain_schema import SLUG


class RequestModel(BaseModel):
    """What a request may say: strict, and nothing else."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class AnswerModel(BaseModel):
    """What an answer holds: exactly these fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @classmethod
    def copied(cls, value: object, **others: object) -> Self:
        """Return an answer with the fields that a value of core has under the same names, and with these others."""
        return cls.model_validate(
            {name: others[name] if name in others else getattr(value, name) for name in cls.model_fields}
        )


class PlainAnswer(AnswerModel):
    """What an answer shows of plain values that core makes for scripts too: of these fields, those that are known."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


def shown(kind: Any, name: str) -> None:
    """Let a value of core be an answer or a part of one: under this name, its fields described by their docstrings."""
    kind.__pydantic_config__ = ConfigDict(
        title=name, use_attribute_docstrings=True, json_schema_serialization_defaults_required=True, extra="forbid"
    )


adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)
"""Returns what checks, describes and encodes answers of a kind: a model, or a value of core."""


class NoParameters(RequestModel):
    """A request that says nothing but its path."""


def _flag(value: object) -> object:
    """Read `true` and `false`; pydantic would also take `on`, `y` and `1`."""
    if isinstance(value, str):
        if value not in ("true", "false"):
            raise ValueError("write true or false")
        return value == "true"
    return value


Flag = Annotated[bool, BeforeValidator(_flag), WithJsonSchema({"type": "boolean"})]
"""A yes or no in a query: `true` or `false`."""


JobId = Annotated[str, Field(pattern=r"^jb_[A-Za-z0-9_]{1,60}$", examples=["jb_1763337600_0a1b2c3d"])]
"""The id of a run. Nothing that could be another key of Redis."""
DomainId = Annotated[str, Field(pattern=SLUG, examples=["docs"])]
SourceName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,129}$", examples=["site"])]
"""A source of a domain, by its own name or with that of the domain in front."""
Limit = Annotated[int, Field(ge=1, le=1000, description="At most so many.")]
Cursor = Annotated[str, Field(max_length=100, description="Where the page before ended; empty: at the beginning.")]
Moment = Annotated[
    str,
    Field(
        max_length=40,
        description="A date, a date and time, or a length of time before now.",
        examples=["2026-01-31", "2026-01-31T12:00:00Z", "2h"],
    ),
]
Name = Annotated[str, Field(max_length=200)]
Offset = Annotated[int, Field(ge=0, le=1_000_000, description="Leave out so many.")]


class ErrorDetail(AnswerModel):
    """What went wrong."""

    code: str = Field(description="A word that programs can compare.", examples=["not_found"])
    message: str = Field(description="A sentence for people.", examples=["There is no run jb_1."])
    hint: str = Field(description="What to do; may be empty.", examples=["GET /v2/jobs lists the runs."])


class ErrorAnswer(AnswerModel):
    """The answer to every request that fails."""

    error: ErrorDetail


def names(text: str) -> tuple[str, ...]:
    """Return the names in a comma-separated parameter."""
    return tuple(dict.fromkeys(filter(None, (name.strip() for name in text.split(",")))))
