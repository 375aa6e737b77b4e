"""Does what Redis holds fit together? Registry, texts, chunks and vectors are compared, and what differs is healed."""
