"""A small page and a small feed of our own.

The fork server reads them before it forks, so that everything that reading takes is loaded and compiled: a child that
had to do that itself would spend 90 ms of CPU on it.
"""

from __future__ import annotations

URL = "https://www.example.org/news/bridge"
_PARAGRAPH = "The bridge was closed on Monday, the council said, and <a href='/tolls'>tolls</a> are not due until May. "
PAGE = f"""<!doctype html><html lang=en><head><title>Bridge closed</title><meta name=author content="A. Writer">
<meta property="article:published_time" content="2026-01-02T03:04:05Z"><link rel=canonical href="{URL}">
<script type="application/ld+json">{{"@type": "NewsArticle", "headline": "Bridge closed"}}</script></head>
<body><nav><a href="/">Home</a></nav><article><h1>Bridge closed</h1><img src="/bridge.jpg" width=800 height=600>
{f"<p>{_PARAGRAPH * 3}</p>" * 6}</article></body></html>""".encode()
FEED = f"""<rss version="2.0"><channel><title>News</title><link>https://www.example.org/</link><item>
<title>Bridge closed</title><link>{URL}</link><pubDate>Fri, 02 Jan 2026 03:04:05 GMT</pubDate>
<description>The bridge was closed on Monday.</description></item></channel></rss>""".encode()
