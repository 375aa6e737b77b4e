"""RQ as a wake-up: who may be woken, and how. The truth is in the stores: delete every RQ key, and nothing is lost."""
