"""SharePoint's REST: what is below `_api` of a site."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from sample_sharepoint import addressing, odata
from sample_sharepoint.addressing import At
from sample_sharepoint.entities import Entities, Json
from sample_sharepoint.loopback import Reply, Request
from sample_sharepoint.model import Item, ItemList, Site
from sample_sharepoint.odata import ODataError
from sample_sharepoint.tenant import Tenant

DEFAULT_PAGE = 100
LARGEST_PAGE = 5_000
SKIP_TOKEN = "Paged=TRUE&p_ID="  # noqa: S105 - SharePoint's word for the place in a listing
LOCKED = "-2147018894, Microsoft.SharePoint.SPFileLockException"
THRESHOLD = "-2147024860, Microsoft.SharePoint.SPQueryThrottledException"


def error_reply(error: ODataError) -> Reply:
    """Return an error as SharePoint words it."""
    body = {"error": {"code": error.code, "message": {"lang": "en-US", "value": error.message}}}
    return Reply.of_json(body, error.status)


@dataclass(slots=True)
class Rest:
    """Answers requests to sites of a tenant."""

    tenant: Tenant
    largest_page: int = LARGEST_PAGE
    """Pages are never longer, whatever `$top` says."""
    page_of_link: dict[str, int] = field(default_factory=dict)
    """The number of the page that a `__next` leads to, by the link."""

    def answer(self, request: Request, site: Site, path: str) -> Reply:
        """Answer a request whose path below `_api` is this one."""
        try:
            return self._answer(request, site, path)
        except ODataError as error:
            return error_reply(error)

    def _answer(self, request: Request, site: Site, path: str) -> Reply:
        at = addressing.follow(self.tenant, site, path)
        writer = _Writer(self, Entities(request.origin, site), request)
        return writer.write(site, at)


@dataclass(slots=True)
class _Writer:
    """Writes what the steps led to."""

    rest: Rest
    entities: Entities
    request: Request

    def write(self, site: Site, at: At) -> Reply:
        writers: dict[str, Callable[[], Reply]] = {
            "web": lambda: self._one(self.entities.web(site)),
            "lists": lambda: self._all([self.entities.item_list(one) for one in site.lists]),
            "list": lambda: self._one(self.entities.item_list(_list(at))),
            "fields": lambda: self._fields(_list(at)),
            "items": lambda: self._items(_list(at), list(_list(at).sorted_items())),
            "pages": lambda: self._items(
                _list(at), [one for one in _list(at).sorted_items() if one.content is not None]
            ),
            "item": lambda: self._one(self._item(_list(at), _item(at))),
            "texts": lambda: self._one(self.entities.texts(_list(at), _item(at))),
            "file": lambda: self._one(self._select(self.entities.file(_item(at)))),
            "folder": lambda: self._one(self._select(self.entities.folder(_item(at)))),
            "files": lambda: self._children(_item(at), is_folder=False),
            "folders": lambda: self._children(_item(at), is_folder=True),
            "content": lambda: self._content(_item(at)),
        }
        if at.kind not in writers:
            raise addressing.no_resource(self.request.path)
        return writers[at.kind]()

    def _one(self, entity: Json) -> Reply:
        return Reply.of_json({"d": entity})

    def _all(self, entities: Sequence[Json], next_link: str = "") -> Reply:
        return Reply.of_json({"d": {"results": list(entities)} | ({"__next": next_link} if next_link else {})})

    def _names(self, option: str) -> list[str]:
        return [name.strip() for name in self.request.query.get(option, "").split(",") if name.strip()]

    def _select(self, entity: Json) -> Json:
        """Keep what `$select` names; SharePoint says 400 for a property that is not there."""
        names = [name for name in self._names("$select") if name != "*"]
        for name in names:
            if name not in entity and name != "Id":  # the client asks files for an `Id` that they lack
                raise odata.invalid_query(f"The field or property '{name}' does not exist.")
        if not names or "*" in self._names("$select"):
            return entity
        return {name: entity[name] for name in ("__metadata", *names) if name in entity}

    def _number(self, option: str, otherwise: int) -> int:
        text = self.request.query.get(option, str(otherwise))
        if not text.isdecimal():
            raise odata.invalid_query(f"The query parameter '{option}' is not valid.")
        return int(text)

    def _fields(self, where: ItemList) -> Reply:
        matches = odata.parse_filter(self.request.query.get("$filter", "") or "Hidden ne null")
        found = [self.entities.column(where, one) for one in where.columns]
        return self._all([self._select(one) for one in found if matches(_property(one))])

    def _children(self, folder: Item, is_folder: bool) -> Reply:
        write = self.entities.folder if is_folder else self.entities.file
        found = [one for one in (folder.children or {}).values() if one.is_folder == is_folder]
        skip = self._number("$skip", 0)
        size = min(self._number("$top", LARGEST_PAGE), self.rest.largest_page)
        is_more = len(found) > skip + size and "$top" in self.request.query
        link = self._link({"$skip": str(skip + size)}) if is_more else ""
        return self._all([self._select(write(one)) for one in found[skip : skip + size]], link)

    def _item(self, where: ItemList, item: Item) -> Json:
        return self.entities.item(where, item, self._names("$select"), self._names("$expand"))

    def _items(self, where: ItemList, found: list[Item]) -> Reply:
        text = self.request.query.get("$filter", "")
        if text and where.is_over_threshold:
            message = "The attempted operation is prohibited because it exceeds the list view threshold."
            raise ODataError(500, THRESHOLD, message)
        after = self._place()
        if text:
            matches = odata.parse_filter(text)
            found = [one for one in found if matches(self.entities.value_of(where, one))]
        found = [one for one in found if one.id > after]
        size = min(self._number("$top", DEFAULT_PAGE), self.rest.largest_page)
        page = found[:size]
        link = self._link({"$skiptoken": f"{SKIP_TOKEN}{page[-1].id}"}) if page and len(found) > size else ""
        return self._all([self._item(where, one) for one in page], link)

    def _place(self) -> int:
        token = self.request.query.get("$skiptoken", "")
        number = token.rpartition("p_ID=")[2] or "0"
        if not number.isdecimal():
            raise odata.invalid_query("The query parameter '$skiptoken' is not valid.")
        return int(number)

    def _link(self, changes: dict[str, str]) -> str:
        path = self.request.target.partition("?")[0]
        query = {**self.request.query, **changes}
        text = "&".join(f"{quote(name, safe='$')}={quote(value, safe='*,/')}" for name, value in query.items())
        link = f"{self.request.origin}{path}?{text}"
        self.rest.page_of_link[link] = self.page_number() + 1
        return link

    def page_number(self) -> int:
        return self.rest.page_of_link.get(f"{self.request.origin}{self.request.target}", 1)

    def _content(self, item: Item) -> Reply:
        if item.is_locked and "bypass-shared-lock" not in self.request.headers.get("prefer", ""):
            raise ODataError(423, LOCKED, f"The file {item.path} is locked for shared use by somebody.")
        headers = {"Content-Type": "application/octet-stream", "ETag": item.etag, "Accept-Ranges": "bytes"}
        body = item.content or b""
        wanted = self.request.headers.get("range", "")
        if not wanted.startswith("bytes="):
            return Reply(200, body, headers)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start, end = int(first or 0), min(int(last or len(body)) + 1, len(body))
        if start >= len(body):
            return Reply(416, b"", {"Content-Range": f"bytes */{len(body)}"})
        return Reply(206, body[start:end], {**headers, "Content-Range": f"bytes {start}-{end - 1}/{len(body)}"})


def _list(at: At) -> ItemList:
    assert at.where is not None
    return at.where


def _item(at: At) -> Item:
    assert at.item is not None
    return at.item


def _property(entity: Json) -> Callable[[str], Any]:
    def find(name: str) -> Any:
        if name not in entity:
            raise odata.invalid_query(f"The field or property '{name}' does not exist.")
        return entity[name]

    return find
