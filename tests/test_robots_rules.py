"""What a robots.txt allows us."""

from __future__ import annotations

import pytest

from core.net.robots import RobotsPolicy, RobotsRules, deciding_rule, groups_for, policy_of_status, product_name

SITE = "http://a.example"


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("", "/", True),
        ("User-agent: *\nDisallow: /", "/", False),
        ("User-agent: *\nDisallow:", "/", True),
        ("User-agent: *\nDisallow: /private", "/public", True),
        ("User-agent: *\nDisallow: /private", "/private/x", False),
        ("User-agent: *\nDisallow: /\nAllow: /news", "/news/1", True),
        ("User-agent: *\nDisallow: /*.pdf$", "/a.pdf", False),
        ("User-agent: *\nDisallow: /*.pdf$", "/a.pdf?x", True),
        ("User-agent: Freshet\nDisallow: /a\n\nUser-agent: *\nDisallow: /", "/b", True),
        ("User-agent: *\nDisallow: /\n\nUser-agent: FRESHET/2.0\nAllow: /", "/b", True),
        ("User-agent: Freshet\nUser-agent: Other\nDisallow: /", "/", False),
        ("User-agent: Other\nUser-agent: Freshet\nDisallow: /", "/", False),
        ("User-agent: Other\nDisallow: /", "/", True),
        ("User-agent: Freshetta\nDisallow: /", "/", True),
        ("\ufeffUser-agent: *\r\nDisallow: /", "/", False),
        ("useragent: *\ndisallow: /", "/", False),
        ("User-agent: * # all\nDisallow: /x # not here", "/x", False),
        ("User-agent: *\n\n# a comment\n\nSitemap: http://x/\nDisallow: /", "/", False),
        ("User-agent: Freshet\nSitemap: http://x/\nUser-agent: Other\nDisallow: /", "/", False),
        ("Disallow: /", "/", True),
        ("<html>not found</html>", "/", True),
        ("\x00\xff\ud800", "/", True),
    ],
)
def test_may_we(text: str, path: str, expected: bool) -> None:
    """Rules are read as search engines read them."""
    assert RobotsRules(text, "freshet").allows(SITE + path) is expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Crawl-delay: 10", 10),
        ("Crawl-delay: 0.5", 0.5),
        ("Crawl-delay: 1000000", 60),
        ("Crawl-delay: 1e999", 0),
        ("Crawl-delay: nan", 0),
        ("Crawl-delay: -5", 0),
        ("Crawl-delay: soon", 0),
        ("Disallow: /x", 0),
    ],
)
def test_crawl_delay(line: str, expected: float) -> None:
    """A site may slow us down to a minute between requests, not more."""
    assert RobotsRules(f"User-agent: *\n{line}", "freshet").delay_seconds == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, RobotsPolicy.RULES),
        (206, RobotsPolicy.RULES),
        (301, RobotsPolicy.ALLOW),
        (401, RobotsPolicy.ALLOW),
        (403, RobotsPolicy.ALLOW),
        (404, RobotsPolicy.ALLOW),
        (410, RobotsPolicy.ALLOW),
        (429, RobotsPolicy.WAIT),
        (500, RobotsPolicy.WAIT),
        (503, RobotsPolicy.WAIT),
    ],
)
def test_policy(status: int, expected: RobotsPolicy) -> None:
    """Absent means allowed; "not now" means not now."""
    assert policy_of_status(status) is expected


@pytest.mark.parametrize(
    ("user_agent", "expected"),
    [("Freshet/0.1 (x)", "freshet"), ("my-bot", "my-bot"), ("Bot2/1", "bot"), ("(odd)", "*")],
)
def test_product(user_agent: str, expected: str) -> None:
    """RFC 9309 names us by letters, `_` and `-` alone."""
    assert product_name(user_agent) == expected


def test_only_our_groups_reach_the_parser() -> None:
    """A file that names ten thousand agents with ten thousand rules costs its length, not the product."""
    agents = "".join(f"User-agent: bot-{'x' * (i % 50)}\n" for i in range(10_000))
    rules = "".join(f"Disallow: /{i}\n" for i in range(10_000))

    assert groups_for(agents + rules, "freshet").strip() == ""
    assert groups_for("User-agent: *\n" * 10_000 + rules, "freshet").count("User-agent") == 1


ROBOTS = """User-agent: *
Disallow: /every
User-agent: other
Disallow: /others
User-agent: freshet
User-agent: third
Disallow: /a
Allow: /a/b
Disallow: /a/b/c   # not this
Disallow: /*.pdf$
Disallow:
"""


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("/a/x", "Disallow: /a"),
        ("/a/b/x", "Allow: /a/b"),
        ("/a/b/c/x", "Disallow: /a/b/c   # not this"),
        ("/x.pdf", "Disallow: /*.pdf$"),
        ("/every", ""),
        ("/others", ""),
        ("/", ""),
    ],
)
def test_deciding_rule(path: str, rule: str) -> None:
    """The longest line of our own group that matches; it says the same as the parser."""
    url = f"https://mill.example{path}"

    assert deciding_rule(ROBOTS, "freshet", url) == rule
    assert RobotsRules(ROBOTS, "freshet").allows(url) is not rule.startswith("Disallow")
    assert deciding_rule(ROBOTS, "another", "https://mill.example/every") == "Disallow: /every"
