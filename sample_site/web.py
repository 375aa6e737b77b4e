"""The sample site's routes. One edition of the paper at a time; a tick turns the page."""

from __future__ import annotations

from datetime import datetime

from aiohttp import web

from sample_site import articles, newsroom, pages, quirks, syndication
from sample_site.conditional import answer
from sample_site.newsroom import Edition, Story

HTML = "text/html; charset=utf-8"
XML = "application/xml; charset=utf-8"
FEEDS = {
    "/feeds/news.xml": (syndication.news_rss, "application/rss+xml; charset=utf-8"),
    "/feeds/business.atom": (syndication.business_atom, "application/atom+xml; charset=utf-8"),
    "/feeds/culture.json": (syndication.culture_json, "application/feed+json"),
    "/feeds/sports.rdf": (syndication.sports_rdf, "application/rdf+xml; charset=utf-8"),
    "/news-sitemap.xml": (syndication.news_sitemap, XML),
    "/sitemap.xml": (syndication.sitemap, XML),
}
HOME_STORIES = 6
RETRY_AFTER_SECONDS = "120"


class Site:
    """Serves the current edition."""

    def __init__(self, started: datetime, tick_seconds: float = 1.0) -> None:
        self._started = started
        self._tick_seconds = tick_seconds
        self.edition = self._print(0)

    def tick(self) -> Edition:
        """Publish, correct, now and then retire."""
        self.edition = self._print(self.edition.tick + 1)
        return self.edition

    def app(self) -> web.Application:
        """The site as an aiohttp application."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/", self._home),
                web.get("/about", self._about),
                web.get("/robots.txt", self._robots),
                web.get("/gazette.css", self._style),
                web.get("/section/{section}", self._section),
                web.get("/images/{slug}.svg", self._image),
                web.get("/amp/{slug}", self._amp),
                web.get(quirks.REDIRECT_PATH, self._redirect),
                *(web.get(path, self._feed) for path in FEEDS),
                web.post("/tick", self._tick),
                web.get("/{section}/{slug}", self._article),
            ]
        )
        return app

    def _print(self, tick: int) -> Edition:
        return newsroom.edition(articles.load(), self._started, tick, self._tick_seconds)

    async def _home(self, request: web.Request) -> web.Response:
        groups = {name.capitalize(): self._readable(name)[:HOME_STORIES] for name in articles.SECTIONS}
        return self._listing(request, "The Freshet Gazette", groups)

    async def _section(self, request: web.Request) -> web.Response:
        section = request.match_info["section"]
        if section not in articles.SECTIONS:
            raise web.HTTPNotFound
        return self._listing(request, section.capitalize(), {"Latest": self._readable(section)})

    def _listing(self, request: web.Request, title: str, groups: dict[str, list[Story]]) -> web.Response:
        page = pages.listing(title, _base(request) + request.path, groups)
        return answer(request, page.encode(), HTML, syndication.last_change(self.edition.stories))

    async def _feed(self, request: web.Request) -> web.Response:
        render, content_type = FEEDS[request.path]
        body = render(self.edition, _base(request))
        return answer(request, body, content_type, syndication.last_change(self.edition.stories))

    async def _article(self, request: web.Request) -> web.Response:
        story = self._find(request)
        slug = story.article.slug
        if slug == quirks.UNAVAILABLE:
            raise web.HTTPServiceUnavailable(headers={"Retry-After": RETRY_AFTER_SECONDS}, text="Overloaded.")
        if slug == quirks.MISSING or story.article.section != request.match_info["section"]:
            raise web.HTTPNotFound
        if slug == quirks.CONSENT_WALL:
            return answer(request, pages.consent(story, _base(request)).encode(), HTML, story.updated)
        return self._page(request, story)

    def _page(self, request: web.Request, story: Story) -> web.Response:
        charset = quirks.CHARSETS.get(story.article.slug, "utf-8")
        # Fixed neighbours, not the newest: a page must not change because another was published.
        neighbours = [self._find_article(slug) for slug in quirks.SYNDICATED]
        page = pages.article(story, _base(request), neighbours, charset)
        says_so = charset == "utf-8" or story.article.slug in quirks.CHARSET_IN_HEADER
        content_type = f"text/html; charset={charset}" if says_so else "text/html"
        return answer(request, page.encode(charset, "xmlcharrefreplace"), content_type, story.updated)

    async def _amp(self, request: web.Request) -> web.Response:
        story = self._find(request)
        return answer(request, pages.amp(story, _base(request)).encode(), HTML, story.updated)

    async def _image(self, request: web.Request) -> web.Response:
        slug = request.match_info["slug"]
        return answer(request, pages.drawing(slug).encode(), "image/svg+xml", self._started, max_age_seconds=86_400)

    async def _redirect(self, request: web.Request) -> web.Response:
        target = self._find_article(quirks.REDIRECTED).article.path
        raise web.HTTPFound(f"{target}?utm_source=counter")

    async def _about(self, request: web.Request) -> web.Response:
        return self._listing(request, "About the Gazette", {})

    async def _robots(self, request: web.Request) -> web.Response:
        return web.Response(text=f"User-agent: *\nDisallow: /desk/\n\nSitemap: {_base(request)}/sitemap.xml\n")

    async def _style(self, request: web.Request) -> web.Response:
        return web.Response(text="body { max-width: 60rem; margin: auto; font-family: serif }", content_type="text/css")

    async def _tick(self, request: web.Request) -> web.Response:
        edition = self.tick()
        return web.json_response(
            {"tick": edition.tick, "stories": len(edition.stories), "retired": len(edition.retired)}
        )

    def _readable(self, section: str) -> list[Story]:
        return [story for story in self.edition.section(section) if story.article.slug not in quirks.WITHOUT_PAGE]

    def _find(self, request: web.Request) -> Story:
        slug = request.match_info["slug"]
        if slug in self.edition.retired:
            raise web.HTTPGone(text="This article has been withdrawn.")
        return self._find_article(slug)

    def _find_article(self, slug: str) -> Story:
        story = self.edition.story(slug)
        if story is None:
            raise web.HTTPNotFound
        return story


def _base(request: web.Request) -> str:
    return f"http://{request.host}"
