"""The Freshet Gazette: a small made-up newspaper, so that everything can be seen with no network.

`python -m scripts.sample_site --port 8008` serves it. Only this function is needed to read it with Freshet.
"""

from __future__ import annotations


def feeds(base_url: str) -> dict[str, list[str]]:
    """Category → feed URLs of the sample site that runs at `base_url`."""
    base = base_url.rstrip("/")
    return {
        "sample_news": [f"{base}/feeds/news.xml"],
        "sample_business": [f"{base}/feeds/business.atom"],
        "sample_culture": [f"{base}/feeds/culture.json"],
        "sample_sports": [f"{base}/feeds/sports.rdf", f"{base}/news-sitemap.xml"],
    }
