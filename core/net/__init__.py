"""HTTP: the fetcher with its address guard, rate limits and robots.txt."""
