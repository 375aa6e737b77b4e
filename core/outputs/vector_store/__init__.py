"""Vector stores: which files a store should have, and what files_metadata.json and a crawl's report say about them."""
