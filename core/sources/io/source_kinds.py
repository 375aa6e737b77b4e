"""The table of sources: one line each.

The order counts where a person names a source in one word: the last line that recognises it takes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from core.sources.domain_schema import SourceConfig, SourceRecord
from core.sources.io.folder import FolderSource
from core.sources.io.github import GithubSource
from core.sources.io.sharepoint import SharePointFiles, SharePointList, SharePointPages
from core.sources.io.single_items import SingleItemSource
from core.sources.io.source import Source
from core.sources.io.web import WebSource

SOURCES: Mapping[str, type[Source]] = {
    "rss": SingleItemSource,
    "urls": SingleItemSource,
    "web": WebSource,
    "folder": FolderSource,
    "github": GithubSource,
    "file": SharePointFiles,
    "list": SharePointList,
    "sitepage": SharePointPages,
}


def source_class(kind: str) -> type[Source]:
    """Return the class of a kind; raise ValueError, a sentence, if there is none."""
    if kind not in SOURCES:
        raise ValueError(f"there is no source of the kind {kind[:80]!r} in this version")
    return SOURCES[kind]


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
