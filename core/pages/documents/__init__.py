"""Files: from bytes of PDF, Word, Markdown, CSV and text to a Document; and decompression of bodies."""
