"""Items of SharePoint with their values, and how a listing ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from core.sources.sharepoint.map_columns import SharePointRow
from core.value_class import value_class


@value_class
class RemoteItem:
    """A file, a row of a list, or a page."""

    row: SharePointRow
    values: Mapping[str, str] = field(default_factory=dict)
    """Of a list: the cells of its visible columns as text, by internal name, since two columns may share a title.
    Of a page: `Title`, `CanvasContent1`, `LayoutWebpartsContent`, `WikiField` and the like."""


@value_class
class ListColumn:
    name: str
    """Internal name."""
    title: str
    type: str


class SharePointUnavailable(Exception):
    """A site cannot be asked: no connection, no permission, no such library. The message says what to do.

    What was known of it stays.
    """


class DownloadFailed(Exception):
    """One item cannot be downloaded; the message says why. The others go on."""


class SharePointStopped(Exception):
    """`should_stop` said so while a request waited or a file came in. Nothing is wrong with the item."""
