"""From a path below `_api` to what it names: a site, a list, an item, a file, or a collection of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sample_sharepoint import segments
from sample_sharepoint.model import SITE_PAGES, Item, ItemList, Site
from sample_sharepoint.odata import ODataError
from sample_sharepoint.tenant import Tenant

RESOURCE = "-1, Microsoft.SharePoint.Client.ResourceNotFoundException"
MISSING = "-2130575338, Microsoft.SharePoint.SPException"


@dataclass(frozen=True, slots=True)
class At:
    """Where the steps have led to."""

    kind: str
    where: ItemList | None = None
    item: Item | None = None


def not_found(code: str, message: str) -> ODataError:
    return ODataError(404, code, message)


def no_resource(path: str) -> ODataError:
    return not_found(RESOURCE, f"Cannot find resource for the request {path}.")


def follow(tenant: Tenant, site: Site, path: str) -> At:
    """Return what the path names; raises an error 404 if it is not there."""
    steps = segments.parse(path)
    if not steps:
        raise no_resource(path)
    at = At("root")
    for step in steps:
        at = _go(tenant, site, at, step, path)
    return at


def _go(tenant: Tenant, site: Site, at: At, step: segments.Step, path: str) -> At:
    found = _STEPS.get((at.kind, step.name))
    if found is None:
        raise no_resource(path)
    return found(tenant, site, at, step.argument)


def _list_by_url(tenant: Tenant, site: Site, at: At, argument: str | None) -> At:
    wanted = _below(site, argument)
    for where in site.lists:
        if where.root.path.lower() == wanted.lower().rstrip("/"):
            return At("list", where)
    raise not_found("-2147024894, System.IO.FileNotFoundException", "File Not Found.")


def _list_by_title(tenant: Tenant, site: Site, at: At, argument: str | None) -> At:
    for where in site.lists:
        if (argument or "").lower() in (where.title.lower(), where.guid):
            return At("list", where)
    raise not_found(
        "-1, System.ArgumentException",
        f"List '{argument}' does not exist at site with URL '{site.path}'.",
    )


def _lists(tenant: Tenant, site: Site, at: At, argument: str | None) -> At:
    return _list_by_title(tenant, site, at, argument) if argument is not None else At("lists")


def _items(tenant: Tenant, site: Site, at: At, argument: str | None) -> At:
    if argument is None:
        return At("items", at.where)
    item = at.where.items.get(int(argument)) if at.where and argument.isdecimal() else None
    if item is None:
        raise not_found(MISSING, "Item does not exist.")
    return At("item", at.where, item)


def _by_id(tenant: Tenant, site: Site, at: At, argument: str | None) -> At:
    return _entry(tenant.find_id(argument or ""), argument)


def _by_path(tenant: Tenant, site: Site, at: At, argument: str | None) -> At:
    return _entry(tenant.find_path(_below(site, argument)), argument)


def _entry(found: tuple[ItemList, Item] | None, argument: str | None) -> At:
    if found is None:
        raise not_found(MISSING, f"The file {argument} does not exist.")
    return At("folder" if found[1].is_folder else "file", *found)


def _below(site: Site, argument: str | None) -> str:
    """A path that does not begin with a slash is below the site."""
    path = argument or ""
    return path if path.startswith("/") else f"{site.path}/{path}"


def _root_folder(tenant: Tenant, site: Site, at: At, argument: str | None) -> At:
    return At("folder", at.where, at.where.root if at.where else None)


def _file_of_item(tenant: Tenant, site: Site, at: At, argument: str | None) -> At:
    return At("folder" if at.item and at.item.is_folder else "file", at.where, at.item)


def _pages(tenant: Tenant, site: Site, at: At, argument: str | None) -> At:
    where = next((one for one in site.lists if one.template == SITE_PAGES), None)
    if where is None:
        raise not_found("-2130575322, Microsoft.SharePoint.SPException", "This site has no pages.")
    return At("pages", where)


def _page_by_url(tenant: Tenant, site: Site, at: At, argument: str | None) -> At:
    found = tenant.find_path(_below(site, argument))
    return At("item", *_required(found, argument))


def _required(found: tuple[ItemList, Item] | None, argument: str | None) -> tuple[ItemList, Item]:
    if found is None:
        raise not_found(MISSING, f"The file {argument} does not exist.")
    return found


def _to(kind: str) -> Callable[[Tenant, Site, At, str | None], At]:
    return lambda tenant, site, at, argument: At(kind, at.where, at.item)


_STEPS: dict[tuple[str, str], Callable[[Tenant, Site, At, str | None], At]] = {
    ("root", "web"): _to("web"),
    ("root", "sitepages"): _to("sitepages"),
    ("sitepages", "pages"): _pages,
    ("pages", "getbyid"): _items,
    ("pages", "getbyurl"): _page_by_url,
    ("web", "getlist"): _list_by_url,
    ("web", "lists"): _lists,
    ("lists", "getbytitle"): _list_by_title,
    ("lists", "getbyid"): _list_by_title,
    **{("web", f"get{kind}byid"): _by_id for kind in ("file", "folder")},
    **{
        ("web", f"get{kind}byserverrelative{name}"): _by_path for kind in ("file", "folder") for name in ("path", "url")
    },
    ("list", "items"): _items,
    ("list", "getitembyid"): _items,
    ("list", "fields"): _to("fields"),
    ("list", "rootfolder"): _root_folder,
    ("folder", "files"): _to("files"),
    ("folder", "folders"): _to("folders"),
    ("folder", "listitemallfields"): _to("item"),
    ("file", "listitemallfields"): _to("item"),
    ("file", "$value"): _to("content"),
    ("item", "file"): _file_of_item,
    ("item", "folder"): _file_of_item,
    ("item", "fieldvaluesastext"): _to("texts"),
}
