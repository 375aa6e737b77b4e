"""Request and response models of the routes of domains."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, JsonValue, create_model

from core.sources.io import source_kinds
from core.sources.io.domain_overview import DomainOverview
from core.sources.source_record import SOURCES_SUFFIX
from workers.web.models import AnswerModel, DomainId, Flag, RequestModel

Sources = list[dict[str, JsonValue]]
_FIELDS: dict[str, Any] = {
    f"{kind}{SOURCES_SUFFIX}": (Sources, Field(default=[], description="As in a domain.json; see docs/domains.md."))
    for kind in source_kinds.config_models()
}


class DomainBody(RequestModel):
    """The head of a domain.json."""

    id: DomainId
    name: str = Field(default="", max_length=200)
    description: str = Field(default="", max_length=10_000)
    vector_store_name: str = Field(default="", max_length=256, description="Empty: the id of the domain.")
    vector_store_id: str = Field(default="", max_length=200, description="Empty: the first crawl makes a store.")
    index: Literal["redis", "openai"] = Field(default="redis", description="Where its texts are embedded.")


PutDomainRequest: type[DomainBody] = create_model("PutDomainRequest", __base__=DomainBody, **_FIELDS)
"""A whole domain.json. What its sources may say is checked as for a file."""


class QuickDomainRequest(RequestModel):
    """A domain of one source, in a word."""

    what: str = Field(
        min_length=1,
        max_length=2_000,
        description="The address of a site or of a GitHub repository, or a folder below FOLDER_ROOTS.",
        examples=["https://docs.example.org/"],
    )
    id: DomainId | None = Field(default=None, description="A name of your own; else one is made of the address.")


class OneDomainRequest(RequestModel):
    """One domain."""

    id: DomainId


class RemoveDomainRequest(RequestModel):
    """A domain that is to go with all its items."""

    id: DomainId
    dry_run: Flag = Field(default=False, description="Only say how much that is.")


class DomainsAnswer(AnswerModel):
    """All domains."""

    domains: list[DomainOverview]
    problems: list[str] = Field(default=[], description="Sentences about files domain.json that cannot be used.")


class DomainDetailsAnswer(AnswerModel):
    """A domain with its sources and its configuration."""

    domain: DomainOverview
    config: dict[str, JsonValue] = Field(description="As in a domain.json.")


class PutDomainAnswer(AnswerModel):
    """What adding a domain did."""

    id: str
    is_new: bool
    sources: list[str]
    removed: dict[str, dict[str, int]] = Field(description="Sources that it no longer has, and what went with them.")
    next_step: str


class RemovalAnswer(AnswerModel):
    """How much was removed, or would be."""

    name: str
    dry_run: bool
    removed: dict[str, int]
    comes_back_by: list[str] = Field(description="Sources that may still list it or link to it.")
