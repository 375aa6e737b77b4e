"""HTML pages: from bytes to a Document."""
