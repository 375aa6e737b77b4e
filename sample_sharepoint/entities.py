"""Sites, lists, columns, items, files and folders as SharePoint's verbose JSON has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sample_sharepoint import field_values as fv
from sample_sharepoint.model import LIST, Column, Item, ItemList, Reference, Site
from sample_sharepoint.odata import invalid_query

Json = dict[str, Any]


class Entities:
    """Writes entities of one site; URIs begin with its address."""

    def __init__(self, origin: str, site: Site) -> None:
        self.origin = origin
        self._site = site
        self.api = f"{origin}{site.path}/_api"

    def _entity(self, uri: str, kind: str, values: Json) -> Json:
        return {"__metadata": {"id": f"{self.api}/{uri}", "uri": f"{self.api}/{uri}", "type": kind}, **values}

    def _deferred(self, uri: str) -> Json:
        return {"__deferred": {"uri": f"{self.api}/{uri}"}}

    def web(self, site: Site) -> Json:
        values: Json = {"Id": site.guid, "Title": site.title, "ServerRelativeUrl": site.path, "WebTemplate": "GROUP"}
        values |= {"Url": f"{self.origin}{site.path}", "Lists": self._deferred("Web/Lists")}
        return self._entity("Web", "SP.Web", values)

    def item_list(self, where: ItemList) -> Json:
        newest = max((item.modified for item in where.items.values()), default=where.root.modified)
        uri = f"Web/Lists(guid'{where.guid}')"
        values = {
            "Id": where.guid,
            "Title": where.title,
            "ItemCount": len(where.items),
            "BaseTemplate": where.template,
            "BaseType": int(where.template != LIST),
            "EntityTypeName": where.root.name.rpartition("/")[2].replace(" ", "_x0020_"),
            "Created": fv.time_text(where.root.created),
            "LastItemModifiedDate": fv.time_text(newest),
            "LastItemUserModifiedDate": fv.time_text(newest),
            "LastItemDeletedDate": fv.time_text(where.root.created),
            "ParentWebUrl": where.site.path,
            "Hidden": False,
            **{name: self._deferred(f"{uri}/{name}") for name in ("Fields", "Items", "RootFolder")},
        }
        return self._entity(uri, "SP.List", values)

    def column(self, where: ItemList, column: Column) -> Json:
        values = {
            "InternalName": column.name,
            "StaticName": column.name,
            "EntityPropertyName": fv.odata_name(column).removesuffix("Id") if column.name != "ID" else "ID",
            "Title": column.title,
            "TypeAsString": column.type,
            "Hidden": column.is_hidden,
            "ReadOnlyField": column.type in ("Computed", "Counter"),
        }
        return self._entity(f"Web/Lists(guid'{where.guid}')/Fields('{column.name}')", "SP.Field", values)

    def file(self, item: Item) -> Json:
        values = {
            **self._place(item),
            "Length": str(len(item.content or b"")),
            "ETag": item.etag,
            "ContentTag": f"{{{item.unique_id.upper()}}},{item.version},1",
            "MajorVersion": item.version,
            "MinorVersion": 0,
            "UIVersion": item.version * 512,
            "UIVersionLabel": f"{item.version}.0",
            "CheckOutType": 2,
            "Level": 1,
            "Title": item.values.get("Title"),
            "ListItemAllFields": self._deferred(f"Web/GetFileById('{item.unique_id}')/ListItemAllFields"),
        }
        return self._entity(f"Web/GetFileById('{item.unique_id}')", "SP.File", values)

    def folder(self, item: Item) -> Json:
        uri = f"Web/GetFolderById('{item.unique_id}')"
        values = {
            **self._place(item),
            "ItemCount": len(item.children or {}),
            **{name: self._deferred(f"{uri}/{name}") for name in ("Files", "Folders")},
        }
        return self._entity(uri, "SP.Folder", values)

    def _place(self, item: Item) -> Json:
        path = {"__metadata": {"type": "SP.ResourcePath"}, "DecodedUrl": item.path}
        return {
            "Name": item.path.rpartition("/")[2],
            "ServerRelativeUrl": item.path,
            "ServerRelativePath": path,
            "UniqueId": item.unique_id,
            "TimeCreated": fv.time_text(item.created),
            "TimeLastModified": fv.time_text(item.modified),
            "Exists": True,
        }

    # ── items ──

    def value_of(self, where: ItemList, item: Item) -> Callable[[str], Any]:
        """Return the function that a filter asks for values."""

        def find(name: str) -> Any:
            name, _, inner = name.removeprefix("OData_").partition("/")
            column = where.column("ID" if name == "Id" else name) or where.column(name.removesuffix("Id"))
            if column is None:
                raise invalid_query(f"Column '{name}' does not exist. It may have been deleted by another user.")
            if column.type == "Note":
                raise invalid_query(f"The field '{name}' of type 'Note' cannot be used in the query filter expression.")
            value = fv.raw_value(where, item, column.name, self.origin)
            if isinstance(value, Reference):
                return value.title if inner else value.id
            return value

        return find

    def item(self, where: ItemList, item: Item, selected: list[str], expanded: list[str]) -> Json:
        """Return an item with the columns that are asked for; `*` are those that come by themselves."""
        uri = f"Web/Lists(guid'{where.guid}')/Items({item.id})"
        values: Json = {}
        parts: dict[str, Json] = {}
        for path in selected or ["*"]:
            name, _, inner = path.partition("/")
            if name == "*":
                values = {**self._star(where, item, uri), **values}
            elif name in expanded or name in ("File", "Folder", "FieldValuesAsText"):
                if name not in parts:
                    parts[name] = self._part(where, item, name, f"{uri}/{name}", name in expanded)
                values[name] = _merge(values.get(name), parts[name], inner)
            else:
                values[name] = self._cell(where, item, name)
        for name in expanded:
            values.setdefault(name, self._part(where, item, name, f"{uri}/{name}", True))
        kind = f"SP.Data.{where.root.name.rpartition('/')[2].replace(' ', '_x0020_')}Item"
        entity = self._entity(uri, kind, values)
        entity["__metadata"]["etag"] = f'"{item.version}"'
        return entity

    def _star(self, where: ItemList, item: Item, uri: str) -> Json:
        columns = [one for one in where.columns if one.is_selected_by_star]
        values = {
            fv.odata_name(one): fv.odata_value(fv.raw_value(where, item, one.name, self.origin)) for one in columns
        }
        parts = ("File", "Folder", "FieldValuesAsText", "FieldValuesAsHtml", "ParentList")
        return {"Id": item.id, **values, **{name: self._deferred(f"{uri}/{name}") for name in parts}}

    def _cell(self, where: ItemList, item: Item, name: str) -> Any:
        plain = "ID" if name == "Id" else name.removeprefix("OData_")
        column = where.column(plain) or where.column(plain.removesuffix("Id"))
        if column is None:
            raise invalid_query(f"The field or property '{name}' does not exist.")
        return fv.odata_value(fv.raw_value(where, item, column.name, self.origin))

    def _part(self, where: ItemList, item: Item, name: str, uri: str, is_expanded: bool) -> Json:
        if name == "FieldValuesAsText" and is_expanded:
            return self._entity(uri, "SP.FieldStringValues", self.texts(where, item))
        if name == "File" and is_expanded and item.content is not None:
            return self.file(item)
        if name == "Folder" and is_expanded and item.is_folder:
            return self.folder(item)
        if name in ("File", "Folder", "FieldValuesAsText"):
            return self._deferred(uri)
        value = fv.raw_value(where, item, name)
        if where.column(name) is None or not isinstance(value, Reference | None):
            raise invalid_query(f"The query to field '{name}' is not valid.")
        person = {"Id": value.id, "Title": value.title, "Name": f"i:0#.f|{value.title}"} if value else None
        return self._entity(uri, "SP.Data.UserInfoItem", person) if person else self._deferred(uri)

    def texts(self, where: ItemList, item: Item) -> Json:
        """Return all cells as text, by the names of `FieldValuesAsText`."""
        return {
            fv.text_name(one.name): fv.text_value(fv.raw_value(where, item, one.name, self.origin))
            for one in where.columns
        }


def _merge(before: Json | None, part: Json, inner: str) -> Json:
    """Keep only the properties of an expanded part that are selected; a part that is selected as such is kept whole."""
    if not inner or "__deferred" in part:
        return part
    if inner not in part:
        raise invalid_query(f"The field or property '{inner}' does not exist.")
    return {"__metadata": part["__metadata"], **(before or {}), inner: part[inner]}
