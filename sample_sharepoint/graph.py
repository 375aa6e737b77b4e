"""Microsoft Graph's `delta` of a library: what changed since a link was given, page by page."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from sample_sharepoint.field_values import time_text
from sample_sharepoint.loopback import Reply, Request
from sample_sharepoint.model import Item, ItemList
from sample_sharepoint.tenant import Tenant

DEFAULT_PAGE = 200
PREFIX = "/v1.0/drives/"


def answer(tenant: Tenant, request: Request, largest_page: int = DEFAULT_PAGE, oldest_token: int = 0) -> Reply:
    """Answer `drives/{id}/root/delta` and `drives/{id}/items/{id}/content`; a token that is too old is a 410."""
    drive_id, _, rest = request.path.removeprefix(PREFIX).partition("/")
    where = next((one for one in tenant.all_lists() if one.drive_id == drive_id), None)
    if where is None:
        return _error(404, "itemNotFound", "The resource could not be found.")
    if rest.rstrip("/") == "root/delta":
        return _delta(tenant, where, request, largest_page, oldest_token)
    unique_id = rest.removeprefix("items/").removesuffix("/content")
    found = tenant.find_id(unique_id)
    if not rest.startswith("items/") or not rest.endswith("/content") or found is None:
        return _error(404, "itemNotFound", "The resource could not be found.")
    return Reply(200, found[1].content or b"", {"Content-Type": "application/octet-stream"})


def _error(status: int, code: str, message: str, **headers: str) -> Reply:
    return Reply.of_json({"error": {"code": code, "message": message}}, status, "application/json", **headers)


def _delta(tenant: Tenant, where: ItemList, request: Request, largest_page: int, oldest_token: int) -> Reply:
    path = f"{request.origin}{request.target.partition('?')[0]}"
    token = request.query.get("token", "")
    if token == "latest":  # noqa: S105 - a word of the protocol
        return _page([], "@odata.deltaLink", f"{path}?token={tenant.changes}.{tenant.changes}.0")
    since, until, skip = (int(part) for part in (token or f"0.{tenant.changes}.0").split("."))
    if token and since < oldest_token:
        return _error(410, "resyncChangesApplyDifferences", "Resync required.", Location=path)
    if since == until:
        until = tenant.changes
    values = _changes(where, since, until, request.origin)
    size = min(int(request.query.get("$top", DEFAULT_PAGE)), largest_page)
    top = f"&$top={request.query['$top']}" if "$top" in request.query else ""
    if len(values) > skip + size:
        return _page(values[skip : skip + size], "@odata.nextLink", f"{path}?token={since}.{until}.{skip + size}{top}")
    return _page(values[skip:], "@odata.deltaLink", f"{path}?token={until}.{until}.0{top}")


def _page(values: list[dict[str, Any]], name: str, link: str) -> Reply:
    return Reply.of_json({"value": values, name: link}, 200, "application/json")


def _changes(where: ItemList, since: int, until: int, origin: str) -> list[dict[str, Any]]:
    present = [
        (one.changed_at, _drive_item(where, one, origin))
        for one in where.items.values()
        if since < one.changed_at <= until
    ]
    gone = [
        (number, {"id": one.unique_id, "deleted": {"state": "deleted"}})
        for number, one in where.removed
        if since < number <= until and one.id not in where.items and since
    ]
    root = [(0, {"id": where.root.unique_id, "name": "root", "root": {}, "folder": {"childCount": 1}})]
    return [value for _, value in sorted([*root, *present, *gone], key=lambda pair: pair[0])]


def _drive_item(where: ItemList, item: Item, origin: str) -> dict[str, Any]:
    below = item.parent.path.removeprefix(where.root.path) if item.parent else ""
    parent = {"driveId": where.drive_id, "path": f"/drives/{where.drive_id}/root:{below}"}
    facet = (
        {"folder": {"childCount": len(item.children or {})}}
        if item.is_folder
        else {"file": {"mimeType": "application/octet-stream"}}
    )
    return {
        "id": item.unique_id,
        "name": item.name,
        "eTag": item.etag,
        "cTag": f'"c:{{{item.unique_id.upper()}}},{item.version}"',
        "size": len(item.content or b""),
        "webUrl": origin + quote(item.path),
        "createdDateTime": time_text(item.created),
        "lastModifiedDateTime": time_text(item.modified),
        "parentReference": parent | {"id": item.parent.unique_id if item.parent else ""},
        "sharepointIds": {"listItemId": str(item.id), "listItemUniqueId": item.unique_id},
        **facet,
    }
