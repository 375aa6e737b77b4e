"""The table of source types: one line each.

The order counts where a person names a source in one word: the last line that recognises it takes it.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.sources.domain_schema import SourceConfig
    from core.sources.io.source import Source
    from core.sources.source_record import SourceRecord


class SourceTable(Mapping[str, "type[Source]"]):
    """The classes of sources by kind, each imported when it is first asked for.

    Most processes and commands need one or none of them, and importing all of them takes time at every start.
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        """`places`: file and class by kind."""
        self._places = places

    def __getitem__(self, kind: str) -> type[Source]:
        name, _, class_name = self._places[kind].partition(" ")
        found: type[Source] = getattr(importlib.import_module(f"core.sources.io.{name}"), class_name)
        return found

    def __contains__(self, kind: object) -> bool:
        return kind in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


USUAL = ("rss", "web")
SOURCES: Mapping[str, type[Source]] = SourceTable(
    {
        "rss": "single_items SingleItemSource",
        "urls": "single_items SingleItemSource",
        "web": "web WebSource",
        "folder": "folder FolderSource",
        "github": "github GithubSource",
        "file": "sharepoint SharePointFiles",
        "list": "sharepoint SharePointList",
        "sitepage": "sharepoint SharePointPages",
    }
)


def import_usual() -> None:
    """Import the sources of nearly every job: articles and web sites."""
    for kind in USUAL:
        source_class(kind)


def source_class(kind: str) -> type[Source]:
    """Return the class of a kind; raise ValueError, a sentence, if there is none."""
    if kind not in SOURCES:
        raise ValueError(f"there is no source of the kind {kind[:80]!r} in this version")
    return SOURCES[kind]


def has_steps(kind: str) -> bool:
    """Do sources of this kind keep a copy that is downloaded and published in steps?"""
    return kind in SOURCES and SOURCES[kind].has_steps


def config_models() -> dict[str, type[SourceConfig]]:
    """Return the configuration models by kind, of those that can be configured."""
    return {kind: source.config_model for kind, source in SOURCES.items() if source.config_model}


def location(source: SourceRecord) -> str:
    """Return what a source points at, for people."""
    model = source_class(source.kind).config_model
    return model.location(source.config) if model else ""


def start_of(source: SourceRecord) -> tuple[str, str]:
    """Return where a source begins and what its addresses have in common, for people; empty if it cannot be read."""
    try:
        model = source_class(source.kind).config_model
        config = model.model_validate_json(json.dumps(dict(source.config))) if model else None
    except ValueError:
        return "", ""
    return (config.title(), config.url_prefix()) if config else ("", "")
