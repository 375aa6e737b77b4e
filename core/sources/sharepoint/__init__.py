"""SharePoint: what a library, a list or the pages of a site become on this disk, and the map files that say so."""
