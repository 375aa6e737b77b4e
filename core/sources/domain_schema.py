"""The schema of a domain: a named set of sources, and how each of them is stored.

Pure: the nouns. What one kind of source may be configured with is in its own `…Config`, of web sites in
`core.sources.web_config`; `core.sources.io.source_kinds` lists the kinds, `core.sources.io.domain_file` reads what
people write.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field

from core.sources.source_record import SOURCES_SUFFIX, SourceRecord
from core.urls.pace import LONGEST_GAP_SECONDS, LONGEST_INTERVAL_SECONDS
from core.urls.path_patterns import PathPatterns, UrlPatterns

GITHUB_URL = "https://github.com"
SLUG = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$"
"""Ids keep their case: `DOMAIN01` and `domain01` are two."""
_DERIVED_CHARS = 50


# ── what every source is configured with ────────────────────────────────────────────────────────


def _globs(patterns: tuple[str, ...]) -> tuple[str, ...]:
    PathPatterns(patterns)
    return patterns


def _url_globs(patterns: tuple[str, ...]) -> tuple[str, ...]:
    UrlPatterns(patterns)
    return patterns


def _vector_store_id(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.-]{0,200}", text):
        raise ValueError("is not the id of a vector store, as vs_abc123; leave it empty, and the first crawl makes one")
    return text


Slug = Annotated[str, Field(pattern=SLUG)]
VectorStoreId = Annotated[str, AfterValidator(_vector_store_id)]
Globs = Annotated[tuple[str, ...], AfterValidator(_globs)]
GapSeconds = Annotated[float, Field(ge=0, le=LONGEST_GAP_SECONDS)]
"""The shortest time between two requests to the hosts of a source."""
UrlGlobs = Annotated[tuple[str, ...], AfterValidator(_url_globs)]


class SourceConfig(BaseModel):
    """What a person may configure of a source; each kind has a model of its own, beside its class."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    location_field: ClassVar[str] = ""
    """The field that says what it points at."""
    companion_suffixes: ClassVar[tuple[str, ...]] = ()
    """How the names of sources end that may come with it."""

    id: Slug | None = Field(default=None, validation_alias=AliasChoices("id", "source_id"))
    interval_seconds: float | None = Field(default=None, gt=0, le=LONGEST_INTERVAL_SECONDS)
    """How often it is listed, and how soon a page that is found by links is checked again; None takes the settings."""

    @classmethod
    def recognise(cls, word: str, web_url: str) -> dict[str, Any] | None:
        """Return the configuration that a word or address stands for; None if it names no source of this kind.

        `web_url` is where GitHub is.
        """
        return None

    def config(self) -> dict[str, Any]:
        """Return it as JSON, without its id."""
        return self.model_dump(mode="json", exclude={"id"})

    def derived_id(self) -> str:
        """Return an id made of what it points at."""
        return slug(str(getattr(self, self.location_field)))

    def title(self) -> str:
        """Return what it points at, for people."""
        return str(getattr(self, self.location_field))

    def url_prefix(self) -> str:
        """Return what the addresses of its items begin with, for people."""
        return self.title()

    @classmethod
    def location(cls, config: Mapping[str, Any]) -> str:
        """Return what a stored configuration points at, for people."""
        return str(config.get(cls.location_field, ""))

    def problem(self) -> str:
        """Return why it cannot be there, as far as this machine can tell; for what a person has just typed."""
        return ""

    def refusal(self, allowed_hosts: Collection[str]) -> str:
        """Return why the settings do not let it be added, with the key in front; `allowed_hosts` may be private."""
        return ""

    def companions(self, web_url: str) -> Sequence[tuple[str, str, SourceConfig]]:
        """Return sources that come with it: how their ids end, their kind, their configuration."""
        return ()


class Domain(BaseModel):
    """A named set of sources; `core.sources.io.domain_file` gives it a field for each kind."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    id: Slug = Field(validation_alias=AliasChoices("id", "domain_id"))
    name: str = Field(default="", max_length=200)
    description: str = Field(default="", max_length=10_000)
    vector_store_name: str = Field(default="", max_length=256)
    """What its vector store is called when it is made; empty: like the domain."""
    vector_store_id: VectorStoreId = ""
    """Empty: the first crawl makes one."""
    index: Literal["redis", "openai"] = "redis"
    """Where its texts are embedded: in Freshet's own index, or in a vector store of OpenAI too."""

    @classmethod
    def source_fields(cls) -> list[str]:
        """Return `web_sources` and the like, in order."""
        return [name for name in cls.model_fields if name.endswith(SOURCES_SUFFIX)]

    def models(self) -> list[tuple[str, SourceConfig]]:
        """Return all its sources in order, with their kinds."""
        return [
            (name.removesuffix(SOURCES_SUFFIX), model) for name in self.source_fields() for model in getattr(self, name)
        ]

    def sources(self, web_url: str = GITHUB_URL) -> list[SourceRecord]:
        """Return all its sources in order, each with an id of its own; companions come after their source."""
        configs: list[SourceRecord] = []
        for source_id, (kind, model) in zip(self.source_ids(), self.models(), strict=True):
            sid = f"{self.id}.{source_id}"
            configs.append(SourceRecord(sid, kind, self.id, model.config()))
            for suffix, other_kind, other in model.companions(web_url):
                configs.append(SourceRecord(f"{sid}{suffix}", other_kind, self.id, other.config()))
        return configs

    def source_ids(self) -> Iterator[str]:
        """Yield given ids as they are; the others are made of what they point at, numbered where that is not enough."""
        models = [model for _, model in self.models()]
        suffixes = ("", *{suffix for model in models for suffix in model.companion_suffixes})
        taken = {f"{model.id}{suffix}" for model in models for suffix in suffixes if model.id}
        for model in models:
            name, number = model.id or model.derived_id(), 1
            while not model.id and {f"{name}{suffix}" for suffix in suffixes} & taken:
                number += 1
                name = f"{model.derived_id()}-{number}"
            taken |= {f"{name}{suffix}" for suffix in suffixes}
            yield name


def folder_id(folder: str) -> str:
    """Return the id of a domain that is called like its folder: the name as it is, if it can be an id."""
    name = folder.rstrip("/\\").replace("\\", "/").rpartition("/")[2]
    return name if re.fullmatch(SLUG, name) else slug(name)


def slug(text: str) -> str:
    """Return an id made of a name or address; never empty."""
    plain = re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-_")[:_DERIVED_CHARS].strip("-_")
    return plain or "source"
