"""The sample site: the office of a small harbour, with a library, a list and two pages.

The library is the folder `documents` beside this file. It has a table that vector stores do not take and a file of no
bytes, so that what happens to such files can be seen.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sample_sharepoint import columns
from sample_sharepoint.model import LIBRARY, LIST, SITE_PAGES, Column, ItemList, Reference
from sample_sharepoint.tenant import Tenant

SITE = "/sites/harbour"
LIBRARY_PATH = "/Shared Documents"
LIST_NAME = "Repairs"
PAGES_PATH = "/SitePages"
DOCUMENTS = Path(__file__).parent / "documents"
INGRID, OLE = Reference(11, "Ingrid Holm"), Reference(12, "Ole Brandt")
REPAIR_COLUMNS = (
    Column("Place", "Place", "Choice"),
    Column("State", "State", "Choice"),
    Column("Reported_x0020_by", "Reported by", "User"),
    Column("Due", "Due", "DateTime"),
    Column("Cost", "Cost in crowns", "Number"),
    Column("Needs", "Needs", "MultiChoice"),
    Column("Details", "Details", "Note"),
    Column("Internal_x0020_code", "Internal code", "Text", is_hidden=True),
)
REPAIRS: tuple[dict[str, Any], ...] = (
    {
        "Title": "Worn cable of the crane",
        "Place": "Crane",
        "State": "Done",
        "Cost": 4300.0,
        "Reported_x0020_by": INGRID,
        "Due": datetime(2025, 12, 12, tzinfo=UTC),
        "Needs": ["Mobile crane"],
        "Details": "The inspector found four broken strands. The new cable is of the same type.",
    },
    {
        "Title": "Lamp of the north pier flickers",
        "Place": "North pier",
        "State": "Open",
        "Cost": 85.0,
        "Reported_x0020_by": OLE,
        "Due": datetime(2026, 2, 1, tzinfo=UTC),
        "Needs": ["Ladder", "Electrician"],
        "Details": "Only when the wind comes from the north-east. Perhaps water in the junction box.",
    },
    {
        "Title": "Slipway too slippery",
        "Place": "Slipway",
        "State": "Open",
        "Reported_x0020_by": INGRID,
        "Needs": ["Brush"],
        "Details": "Algae below the third ring. Wait until the seals have left.",
    },
)
CANVAS = (
    '<div><div data-sp-canvascontrol="" data-sp-canvasdataversion="1.0" data-sp-controldata="{}">'
    '<div data-sp-rte=""><h2>Ferry in winter</h2><p>From November to March the ferry sails every two hours, the last '
    "at half past seven in the evening. Bicycles travel free, cars need a booking.</p>"
    "<p>In fog the ferry waits until the captain sees the second buoy.</p></div></div></div>"
)
WIKI = (
    '<div class="ExternalClass1"><h1>Who does what</h1><p>Ingrid Holm runs the counter and the lost property. '
    "Ole Brandt looks after lamps, lines and the crane. The harbour master decides about storms and seals.</p></div>"
)


def build_tenant() -> Tenant:
    """Return the site with everything in it; the same at each start."""
    tenant = Tenant()
    site = tenant.add_site(SITE, "Harbour office")
    own = [*columns.COMMON, *columns.OF_LIBRARIES]
    library = tenant.add_list(site, "Documents", LIBRARY_PATH.strip("/"), LIBRARY, own)
    for path in sorted(one for one in DOCUMENTS.rglob("*") if one.is_file()):
        tenant.add_file(library, path.relative_to(DOCUMENTS).as_posix(), path.read_bytes())
    repairs = tenant.add_list(
        site, LIST_NAME, f"Lists/{LIST_NAME}", LIST, [*columns.COMMON, *columns.OF_LISTS, *REPAIR_COLUMNS]
    )
    for row in REPAIRS:
        tenant.add_row(repairs, dict(row))
    pages = tenant.add_list(site, "Site Pages", PAGES_PATH.strip("/"), SITE_PAGES, [*own, *columns.OF_SITE_PAGES])
    _add_page(tenant, pages, "Ferry.aspx", "Ferry in winter", CanvasContent1=CANVAS)
    _add_page(tenant, pages, "People/Who does what.aspx", "Who does what", WikiField=WIKI)
    return tenant


def _add_page(tenant: Tenant, pages: ItemList, path: str, title: str, **texts: str) -> None:
    tenant.add_file(pages, path, "".join(texts.values()).encode(), None, Title=title, **texts)


def domain(origin: str) -> dict[str, Any]:
    """Return the domain.json of the sample site that runs at `origin`."""
    site_url = f"{origin}{SITE}"
    return {
        "name": "Sample SharePoint",
        "description": "The office of a small harbour: a library, a list and two pages on this machine",
        "index": "redis",
        "file_sources": [
            {"source_id": "documents", "site_url": site_url, "sharepoint_url_part": LIBRARY_PATH, "filter": ""}
        ],
        "list_sources": [{"source_id": "repairs", "site_url": site_url, "list_name": LIST_NAME, "filter": ""}],
        "sitepage_sources": [
            {"source_id": "pages", "site_url": site_url, "sharepoint_url_part": PAGES_PATH, "filter": ""}
        ],
    }
