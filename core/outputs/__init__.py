"""Outputs: what other systems take from the store, as republished feeds and as webhooks."""
