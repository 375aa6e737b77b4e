"""The I/O of outputs: republished feeds and webhook delivery."""
