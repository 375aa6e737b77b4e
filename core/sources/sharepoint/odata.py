"""SharePoint's REST: the addresses that are asked, and what the JSON of the answers means.

Answers come from outside. Whatever is missing, of another type or too large ends in a sentence, never in a crash; a row
that cannot be read ends the listing, because an item that is left out would count as removed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

from core.sources.sharepoint.remote_items import ListColumn, SharePointUnavailable
from core.value_class import value_class

MOST_TEXT_CHARS = 2_000
"""Limit for a name or an address; SharePoint itself takes 400 for a path."""

_LIST_BY_ID = re.compile(r"/lists\(guid'([0-9a-f-]{36})'\)/(?:items|fields)\b")
_DEFAULT_PORTS = {"http": 80, "https": 443}

Entity = Mapping[str, Any]


@value_class
class EntityPage:
    entities: Sequence[Entity]
    next_link: str
    """Where the next page is, as the server says; empty on the last one."""


# ── addresses ──


def origin_of(url: str) -> str:
    """Return scheme, host and port of an address, the port only where it is not the usual one."""
    parts = urlsplit(url)
    scheme, host = parts.scheme.lower(), (parts.hostname or "").lower()
    name = f"[{host}]" if ":" in host else host
    is_usual = parts.port in (None, _DEFAULT_PORTS.get(scheme))
    return f"{scheme}://{name}" if is_usual else f"{scheme}://{name}:{parts.port}"


def server_relative(site_url: str, url_part: str) -> str:
    """Return the path of a library on its server; `url_part`, not encoded, may begin below the site or at the root."""
    site = unquote(urlsplit(site_url).path).rstrip("/")
    part = "/" + url_part.strip("/")
    is_whole = bool(site) and f"{part}/".casefold().startswith(f"{site}/".casefold())
    return part if is_whole else site + part


def query(select: str = "", expand: str = "", odata_filter: str = "", top: int = 0) -> str:
    """Return the query of a collection, from the question mark on."""
    options = {"$select": select, "$expand": expand, "$filter": odata_filter, "$top": str(top) if top else ""}
    return "?" + "&".join(f"{name}={quote(text, safe='*,/')}" for name, text in options.items() if text)


def next_address(page: EntityPage, asked_url: str) -> str:
    """Return where the next page is, or an empty text; a link to another server or list is refused.

    The token goes with every request, so only the server that was asked may get it.
    """
    if not page.next_link:
        return ""
    try:
        link = urljoin(asked_url, page.next_link)
        is_same_origin = origin_of(link) == origin_of(asked_url)
        path, asked_path = (unquote(urlsplit(url).path).casefold() for url in (link, asked_url))
    except ValueError:
        raise SharePointUnavailable("The link to the next page of the listing cannot be read.") from None
    if not is_same_origin:
        raise SharePointUnavailable(
            "The link to the next page of the listing leads to another server. It is not followed, since the token "
            "would go there."
        )
    if path != asked_path and not _is_list_by_id(path, page.entities):
        raise SharePointUnavailable("The link to the next page of the listing leads to another list.")
    return link


def _is_list_by_id(path: str, entities: Sequence[Entity]) -> bool:
    """Return whether the path names a list by its id, and the rows do not say that they are of another."""
    found = _LIST_BY_ID.search(path)
    metadata = entities[0].get("__metadata") if entities else None
    uri = _LIST_BY_ID.search(text_of(metadata.get("uri")).casefold() if isinstance(metadata, dict) else "")
    return found is not None and (uri is None or uri[1] == found[1])


# ── answers ──


def read_page(answer: object) -> EntityPage:
    """Return the rows of a collection, in the verbose form or the light one."""
    body = answer.get("d", answer) if isinstance(answer, dict) else answer
    if isinstance(body, list):
        body = {"results": body}
    rows = body.get("results", body.get("value")) if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise SharePointUnavailable(
            "The server answered with something that is not a list of items. Check site_url: is it the address of a "
            "SharePoint site?"
        )
    link = body.get("__next") or body.get("odata.nextLink") or body.get("@odata.nextLink") or ""
    if not isinstance(link, str):
        raise SharePointUnavailable("The link to the next page of the listing is not a text.")
    return EntityPage(rows, link)


def read_entity(answer: object) -> Entity:
    body = answer.get("d", answer) if isinstance(answer, dict) else None
    if not isinstance(body, dict):
        raise SharePointUnavailable("The server answered with something that is not an object of SharePoint.")
    return body


def read_columns(entities: Sequence[Entity]) -> list[ListColumn]:
    columns = []
    for entity in entities:
        name = text_of(entity.get("InternalName")) or text_of(entity.get("StaticName"))
        if not name or len(name) > MOST_TEXT_CHARS:
            raise SharePointUnavailable("A column of the list has no name that can be read.")
        if entity.get("Hidden") is not True:
            title = text_of(entity.get("Title")) or name
            columns.append(ListColumn(name, title[:MOST_TEXT_CHARS], text_of(entity.get("TypeAsString"))))
    return columns


def text_of(value: object) -> str:
    """Return a plain value as text that can be stored; empty for nothing and for objects."""
    if isinstance(value, str):
        # JSON may hold halves of surrogate pairs, which no file can.
        return value.encode("utf-8", "replace").decode() if not value.isascii() else value
    if isinstance(value, bool):
        return "Yes" if value else "No"
    if isinstance(value, int | float):
        return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    return ""


def error_of(answer: object) -> tuple[str, str]:
    """Return code and message of an error's JSON; empty if it has none."""
    error = answer.get("error", answer.get("odata.error")) if isinstance(answer, dict) else None
    if not isinstance(error, dict):
        return "", ""
    message = error.get("message")
    text = message.get("value") if isinstance(message, dict) else message
    return text_of(error.get("code"))[:200], " ".join(text_of(text).split())[:300]
