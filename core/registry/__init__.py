"""The registry: item records, what the outcome of a visit means, and what is written."""
