"""The I/O of the doctor: read the store, report problems, repair them."""
