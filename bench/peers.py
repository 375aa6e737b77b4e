"""What Freshet is compared with, each a process of its own that stores the same fields in Redis.

python -m bench.peers scrapy URLS REDIS_URL [--main-text]     Scrapy, with trafilatura or BeautifulSoup
python -m bench.peers sequential URLS REDIS_URL [--main-text] one link after the other
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import time
from pathlib import Path
from typing import Any

import redis

WEEK = 7 * 86_400


def by_main_text(html: str, url: str) -> dict[str, Any]:
    """trafilatura in the mode we use, with the same fields."""
    import trafilatura

    found = trafilatura.bare_extraction(html, url=url, with_metadata=True, include_tables=True, include_formatting=True)
    if found is None:
        return {}
    text = found.text or ""
    return {
        "title": found.title or "",
        "clean_text": text,
        "abstract": next((line for line in text.split("\n") if len(line) > 40), "")[:500],
        "image": found.image or "",
        "author": found.author or "",
        "published": found.date or "",
        "language": found.language or "",
        "canonical_url": found.url or "",
    }


def by_all_text(html: str, url: str) -> dict[str, Any]:
    """All text of a page, its first image, its first paragraph of more than 40 characters, and what it states."""
    from bs4 import BeautifulSoup

    soup = BeautifulSoup(html, "lxml")
    author = soup.find("meta", attrs={"name": "author"}) or soup.find("meta", property="article:author")
    published = soup.find("meta", property="article:published_time") or soup.find("meta", attrs={"name": "date"})
    canonical = soup.find("link", rel="canonical")
    stated = {
        "author": author.get("content", "") if author else "",
        "published": published.get("content", "") if published else "",
        "language": soup.html.get("lang", "") if soup.html else "",
        "canonical_url": canonical.get("href", "") if canonical else "",
    }
    for tag in soup(["script", "style", "noscript"]):
        tag.decompose()
    paragraphs = (p.get_text(" ", strip=True) for p in soup.find_all("p"))
    image = soup.find("img")
    fields = {
        "title": soup.title.get_text(strip=True) if soup.title else "",
        "clean_text": " ".join(soup.get_text(" ").split()),
        "abstract": next((text for text in paragraphs if len(text) > 40), "")[:500],
        "image": image.get("src", "") if image else "",
    }
    return fields | stated


def store(client: redis.Redis, url: str, raw_len: int, fields: dict[str, Any]) -> None:
    """Store an article in one pipeline, as a straightforward script would."""
    uid = hashlib.sha1(url.encode()).hexdigest()[:16]
    text = fields.get("clean_text", "")
    fields = fields | {
        "uid": uid,
        "url": url,
        "category": "bench",
        "status": "success",
        "raw_len": raw_len,
        "text_len": len(text),
        "fetched_ts": time.time(),
        "content_hash": hashlib.sha256(text.encode()).hexdigest(),
    }
    pipe = client.pipeline()
    pipe.hset(f"peer:article:{uid}", mapping=fields)
    pipe.expire(f"peer:article:{uid}", WEEK)
    pipe.sadd("peer:category", uid)
    pipe.zadd("peer:index", {uid: time.time()})
    pipe.sadd("peer:attempted", uid)
    pipe.execute()


def scrapy_run(urls: list[str], client: redis.Redis, read: Any) -> None:
    """A spider with Scrapy's defaults, but as many requests at once as we have."""
    import scrapy
    from scrapy.crawler import CrawlerProcess

    class Spider(scrapy.Spider):
        name = "bench"
        start_urls = urls

        def parse(self, response: Any) -> None:
            store(client, response.url, len(response.body), read(response.text, response.url))

    settings = {
        "LOG_LEVEL": "ERROR",
        "CONCURRENT_REQUESTS": 100,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 100,
        "DOWNLOAD_DELAY": 0,
        "ROBOTSTXT_OBEY": True,
        "TELNETCONSOLE_ENABLED": False,
    }
    process = CrawlerProcess(settings)
    process.crawl(Spider)
    process.start()


async def sequential_run(urls: list[str], client: redis.Redis, read: Any) -> None:
    """aiohttp, one link after the other."""
    import aiohttp

    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=15)) as session:
        for url in urls:
            async with session.get(url) as response:
                html = await response.text(errors="replace")
            store(client, url, len(html), read(html, url))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("who", choices=["scrapy", "sequential"])
    parser.add_argument("urls", type=Path)
    parser.add_argument("redis_url")
    parser.add_argument("--main-text", action="store_true")
    given = parser.parse_args()
    urls, client = json.loads(given.urls.read_text()), redis.Redis.from_url(given.redis_url)
    read = by_main_text if given.main_text else by_all_text
    if given.who == "scrapy":
        scrapy_run(urls, client, read)
    else:
        asyncio.run(sequential_run(urls, client, read))
    print(client.scard("peer:attempted"))


if __name__ == "__main__":
    main()
