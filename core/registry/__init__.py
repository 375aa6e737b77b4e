"""The registry: the record of an item, what a visit means, what is written."""
