"""The I/O of feeds: subscriptions, polling, link sets."""
