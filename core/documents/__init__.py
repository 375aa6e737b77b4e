"""Files: PDF, Word, Markdown, CSV to a Document."""
