"""Search: chunking, languages, ranking, snippets, results."""
