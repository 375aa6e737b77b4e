"""Aggregator links lead to the publisher, or nowhere; everything else passes untouched."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.models import RejectedUrl
from core.urls.unwrap import unwrap

TARGET = "https://publisher.example/story?id=1&b=2"
ENCODED = "https%3A%2F%2Fpublisher.example%2Fstory%3Fid%3D1%26b%3D2"

# (name, link): all lead to TARGET
WRAPPED = [
    ("google q", f"https://www.google.com/url?q={ENCODED}&sa=D"),
    ("google url, empty q", f"https://www.google.com/url?sa=t&rct=j&q=&esrc=s&url={ENCODED}&usg=x"),
    ("google without www", f"http://google.com/url?q={ENCODED}"),
    ("google UK", f"https://www.google.co.uk/url?q={ENCODED}"),
    ("google Brazil", f"https://www.google.com.br/url?url={ENCODED}"),
    ("google Germany, upper case", f"HTTPS://WWW.GOOGLE.DE/URL?URL={ENCODED}"),
    ("google alert", f"https://www.google.com/url?rct=j&sa=t&url={ENCODED}&ct=ga&cd=CAIyG&usg=AOvV"),
    ("encoded twice", f"https://www.google.com/url?q={ENCODED.replace('%', '%25')}"),
    ("old google news", f"http://news.google.com/news/url?sa=t&fd=R&usg=x&url={ENCODED}"),
    ("google news article with url", f"https://news.google.com/rss/articles/CBMi?url={ENCODED}"),
    ("AMP viewer", "https://www.google.com/amp/s/publisher.example/story?id=1&b=2"),
    ("AMP cache", "https://publisher-example.cdn.ampproject.org/c/s/publisher.example/story?id=1&b=2"),
    ("bing news", f"http://www.bing.com/news/apiclick.aspx?ref=FexRss&aid=&tid=1&url={ENCODED}&c=2&mkt=en-us"),
    ("bing news, other case", f"https://bing.com/News/ApiClick.aspx?URL={ENCODED}"),
    ("yahoo search", f"https://r.search.yahoo.com/_ylt=A;_ylu=Y/RV=2/RE=1/RO=10/RU={ENCODED}/RK=2/RS=x-"),
    ("yahoo star", f"http://us.rd.yahoo.com/dailynews/rss/search/x/SIG=1/*{TARGET}"),
    ("yahoo star, encoded", f"http://us.rd.yahoo.com/finance/SIG=1/**{ENCODED}"),
    ("yahoo u", f"https://news.search.yahoo.com/r?menu=1&u={ENCODED}"),
    ("yahoo news url", f"https://news.yahoo.com/rss/go?url={ENCODED}"),
    ("msn redirect", f"https://www.msn.com/en-us/news/redirect?url={ENCODED}"),
    ("msn apiclick", f"http://www.msn.com/apiclick.aspx?ref=x&url={ENCODED}"),
    ("facebook", f"https://l.facebook.com/l.php?u={ENCODED}&h=AT0"),
    ("facebook share", f"https://www.facebook.com/sharer/sharer.php?u={ENCODED}"),
    ("instagram", f"https://l.instagram.com/?u={ENCODED}&e=AT"),
    ("feedproxy with url", f"http://feedproxy.google.com/~r/Blog/~3/abc/?url={ENCODED}"),
    ("alert on a facebook link", "https://www.google.com/url?url=https%3A%2F%2Fl.facebook.com%2Fl.php%3Fu%3D"
     + ENCODED.replace("%", "%25")),
]  # fmt: skip

UNTOUCHED = [
    TARGET,
    f"https://evil-google.com/url?q={ENCODED}",
    f"https://notgoogle.com/url?q={ENCODED}",
    f"https://google.com.evil.org/url?q={ENCODED}",
    f"https://google.github.io/url?q={ENCODED}",
    f"https://www.google.evil/url?q={ENCODED}",
    f"https://example.com/www.google.com/url?q={ENCODED}",
    f"https://bing.com.evil.org/news/apiclick.aspx?url={ENCODED}",
    f"https://news.yahoo.com/story.html?menu={ENCODED}",
    "https://news.yahoo.com/some-article-123.html?u=5",
    "https://finance.yahoo.com/news/a-b-c-123.html",
    "https://www.msn.com/en-us/news/world/a-story/ar-AA1abc?ocid=x",
    "https://www.msn.com/en-us/news/redirect",
    "https://www.bing.com/search?q=a",
    "https://www.google.com/search?q=a",
    "https://blog.google/products/a",
    "https://support.google.com/url/answer/1",
    "https://www.facebook.com/publisher/posts/1",
    "https://feeds.feedburner.com/TechCrunch",
    "https://t.co/abc",
    "mailto:a@example.com",
    "not a url",
    "",
]

# (name, link, reason)
REJECTED = [
    ("google news rss", "https://news.google.com/rss/articles/CBMiabc?oc=5", "aggregator_opaque"),
    ("google news", "https://news.google.com/articles/CBMiabc?hl=en-US", "aggregator_opaque"),
    ("google news read", "https://news.google.com/read/CBMiabc", "aggregator_opaque"),
    ("google news UK", "https://news.google.co.uk/rss/articles/CBMiabc", "aggregator_opaque"),
    ("feedproxy", "http://feedproxy.google.com/~r/Blog/~3/abc/", "aggregator_opaque"),
    ("feedburner", "http://feeds.feedburner.com/~r/Blog/~3/abc/story.html", "aggregator_opaque"),
    ("google without target", "https://www.google.com/url?sa=t", "aggregator_opaque"),
    ("AMP without target", "https://www.google.com/amp/s/", "aggregator_opaque"),
    ("javascript inside", "https://www.google.com/url?q=javascript%3Aalert(1)", "aggregator_target"),
    ("file inside", "https://www.google.com/url?q=file:///etc/passwd", "aggregator_target"),
    ("data inside", "https://www.bing.com/news/apiclick.aspx?url=data:text/html,x", "aggregator_target"),
    ("words inside", "https://www.google.com/url?q=weather", "aggregator_target"),
]


@pytest.mark.parametrize("link", [row[1] for row in WRAPPED], ids=[row[0] for row in WRAPPED])
def test_target_is_found(link: str) -> None:
    """Each known kind of redirect gives up its target, query and all."""
    assert unwrap(link) == TARGET


@pytest.mark.parametrize("link", UNTOUCHED)
def test_other_links_pass(link: str) -> None:
    """Look-alike hosts, look-alike parameters and an aggregator's own pages are returned as they are."""
    assert unwrap(link) == link


@pytest.mark.parametrize(("link", "reason"), [row[1:] for row in REJECTED], ids=[row[0] for row in REJECTED])
def test_no_target(link: str, reason: str) -> None:
    """A target that is hidden, or is not a web address, is a rejection that keeps the link."""
    assert unwrap(link) == RejectedUrl(link, reason)


def _nested(rounds: int) -> str:
    link = "https://publisher.example/a"
    for _ in range(rounds):
        link = "https://www.google.com/url?q=" + link.replace("%", "%25").replace("?", "%3F").replace("=", "%3D")
    return link


def test_three_rounds_and_no_more() -> None:
    """Wrappers within wrappers are opened three times; a fourth is refused."""
    assert unwrap(_nested(3)) == "https://publisher.example/a"
    assert unwrap(_nested(4)) == RejectedUrl(_nested(4), "aggregator_depth")


@pytest.mark.usefixtures("no_runaway")
@pytest.mark.parametrize("tail", ["/redirect?&" * 20_000, "?" + "&u=x" * 50_000, "/RU=" * 50_000, "/*" * 50_000])
@pytest.mark.parametrize("host", ["www.msn.com", "r.search.yahoo.com", "us.rd.yahoo.com", "news.google.com"])
def test_hostile_links_cost_linear_time(host: str, tail: str) -> None:
    """A link of 200,000 characters made to confuse the patterns is answered in a moment."""
    assert isinstance(unwrap(f"https://{host}/{tail}"), str | RejectedUrl)


@given(
    st.text() | st.builds("https://www.google.com/{}?{}={}".format, st.text(), st.sampled_from(["q", "url"]), st.text())
)
def test_never_raises(text: str) -> None:
    """Any text at all gives a link or a reason."""
    assert isinstance(unwrap(text), (str, RejectedUrl))
