"""The I/O of search: embedders, indexes, the replica, the searcher."""
