"""Keep a vector store in step with the local copies of a source."""
