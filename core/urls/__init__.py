"""What a URL is: cleaning, identity, unwrapping, scope."""
