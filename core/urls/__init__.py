"""URLs: cleaning, normalisation, unwrapping, scope, secrets, pace."""
