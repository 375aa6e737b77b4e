"""The I/O of the registry: visits, stores, lists, removal, cleanup."""
