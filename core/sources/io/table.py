"""The table of sources: one line each.

The order counts where a person names a source in one word: the last line that recognises it takes it.
"""

from __future__ import annotations

from collections.abc import Mapping

from core.sources.domains import SourceConfig, SourceModel
from core.sources.io.folder import FolderSource
from core.sources.io.github import GithubSource
from core.sources.io.single import PageSource
from core.sources.io.source import Source
from core.sources.io.web import WebSource

SOURCES: Mapping[str, type[Source]] = {
    "rss": PageSource,
    "urls": PageSource,
    "web": WebSource,
    "folder": FolderSource,
    "github": GithubSource,
}


def source_class(kind: str) -> type[Source]:
    """The program of a kind. Raises ValueError, a sentence."""
    if kind not in SOURCES:
        raise ValueError(f"there is no source of the kind {kind[:80]!r} in this version")
    return SOURCES[kind]


def models() -> dict[str, type[SourceModel]]:
    """By kind, what a person may write of it, for those that can be configured."""
    return {kind: found.config_model for kind, found in SOURCES.items() if found.config_model}


def place(source: SourceConfig) -> str:
    """What a source points at, for people."""
    model = source_class(source.kind).config_model
    return str(source.config.get(model.place_field, "")) if model else ""
