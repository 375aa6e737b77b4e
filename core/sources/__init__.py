"""Sources of items: web sites, folders, GitHub, SharePoint; and domains, which are sets of sources."""
