"""The columns that SharePoint itself gives to lists, libraries and site pages; a real list has several dozen."""

from __future__ import annotations

from sample_sharepoint.model import Column


def _hidden(name: str, kind: str = "Text", by_star: bool = False) -> Column:
    return Column(name, name, kind, is_hidden=True, is_selected_by_star=by_star)


COMMON = (
    Column("ID", "ID", "Counter"),
    Column("ContentType", "Content Type", "Computed", is_selected_by_star=False),
    Column("Title", "Title"),
    Column("Modified", "Modified", "DateTime"),
    Column("Created", "Created", "DateTime"),
    Column("Author", "Created By", "User"),
    Column("Editor", "Modified By", "User"),
    Column("_UIVersionString", "Version"),
    Column("Edit", "Edit", "Computed", is_selected_by_star=False),
    Column("DocIcon", "Type", "Computed", is_selected_by_star=False),
    _hidden("GUID", "Guid", by_star=True),
    _hidden("FileSystemObjectType", "Integer", by_star=True),
    _hidden("ContentTypeId", "ContentTypeId", by_star=True),
    _hidden("UniqueId", "Lookup"),
    _hidden("FSObjType", "Lookup"),
    _hidden("FileRef", "Lookup"),
    _hidden("FileDirRef", "Lookup"),
    _hidden("EncodedAbsUrl", "Computed"),
    _hidden("owshiddenversion", "Integer"),
)
OF_LISTS = (
    Column("Attachments", "Attachments", "Attachments"),
    Column("LinkTitle", "Title", "Computed", is_selected_by_star=False),
    _hidden("FileLeafRef", "File"),
)
OF_LIBRARIES = (
    Column("FileLeafRef", "Name", "File", is_selected_by_star=False),
    Column("LinkFilename", "Name", "Computed", is_selected_by_star=False),
    Column("FileSizeDisplay", "File Size", "Computed", is_selected_by_star=False),
    Column("CheckoutUser", "Checked Out To", "User", is_selected_by_star=False),
    _hidden("File_x0020_Size", "Lookup"),
    _hidden("File_x0020_Type", "Text"),
    _hidden("SMTotalFileStreamSize", "Lookup"),
)
OF_SITE_PAGES = (
    Column("WikiField", "Wiki Content", "Note"),
    Column("CanvasContent1", "Authoring Canvas Content", "Note"),
    Column("LayoutWebpartsContent", "LayoutWebpartsContent", "Note", is_hidden=True),
    Column("BannerImageUrl", "Banner Image URL", "URL"),
    Column("Description", "Description", "Note"),
    Column("PromotedState", "Promoted State", "Number", is_hidden=True),
)
