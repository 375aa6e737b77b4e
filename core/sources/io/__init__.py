"""The I/O of sources: crawl, list and fetch; store domains and sources."""
