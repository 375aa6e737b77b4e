"""Clean, normal, shown: the policy of docs/urls.md, one row per line of its table."""

from __future__ import annotations

import ada_url
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from core import ids
from core.models import RejectedUrl
from core.urls import normalise, tracking_parameters
from core.urls.normalise import (
    MAX_URL_CHARS,
    NORMALISER_VERSION,
    clean_url,
    display_url,
    host_of,
    join_url,
    normalise_url,
    origin_of,
    registrable_domain,
    split_url,
)

LONG = "https://example.com/" + "a" * (MAX_URL_CHARS - len("https://example.com/"))

# (name, given, clean)
CLEAN = [
    ("unchanged", "https://example.com/a/b?c=d", "https://example.com/a/b?c=d"),
    ("scheme and host case", "HTTPS://WWW.Example.COM/Path", "https://www.example.com/Path"),
    ("root slash added", "https://example.com", "https://example.com/"),
    ("default port http", "http://example.com:80/a", "http://example.com/a"),
    ("default port https", "https://example.com:443/a", "https://example.com/a"),
    ("other port", "https://example.com:8443/a", "https://example.com:8443/a"),
    ("the other scheme's port", "https://example.com:80/a", "https://example.com:80/a"),
    ("empty userinfo", "http://@example.com/", "http://example.com/"),
    ("dot segments", "https://example.com/a/./b/../c", "https://example.com/a/c"),
    ("encoded dot segments", "https://example.com/a/%2e%2E/c", "https://example.com/c"),
    ("double slash kept", "https://example.com/a//b", "https://example.com/a//b"),
    ("backslashes", "https:\\\\example.com\\a", "https://example.com/a"),
    ("percent case kept", "https://example.com/%c3%a9", "https://example.com/%c3%a9"),
    ("unreserved kept encoded", "https://example.com/%7Ejane", "https://example.com/%7Ejane"),
    ("non-ASCII path", "https://example.com/é", "https://example.com/%C3%A9"),
    ("space in path", "https://example.com/a b", "https://example.com/a%20b"),
    ("fragment", "https://example.com/a#top", "https://example.com/a"),
    ("hashbang is a fragment", "https://example.com/#!/a", "https://example.com/"),
    ("query inside fragment", "https://example.com/a#b?c=d", "https://example.com/a"),
    ("empty query", "https://example.com/a?", "https://example.com/a"),
    ("query order kept", "https://example.com/?b=1&a=2", "https://example.com/?b=1&a=2"),
    ("duplicates kept", "https://example.com/?a=2&a=1&a=2", "https://example.com/?a=2&a=1&a=2"),
    ("empty values kept", "https://example.com/?a=&b&=c&&d", "https://example.com/?a=&b&=c&&d"),
    ("plus kept", "https://example.com/?q=a+b%20c%2Bd", "https://example.com/?q=a+b%20c%2Bd"),
    ("semicolons kept", "https://example.com/?a=1;b=2", "https://example.com/?a=1;b=2"),
    ("trailing slash kept", "https://example.com/a/", "https://example.com/a/"),
    ("http stays http", "http://example.com/", "http://example.com/"),
    ("www stays", "https://www.example.com/", "https://www.example.com/"),
    ("trailing dot", "https://example.com./a", "https://example.com/a"),
    ("trailing dot before port", "https://example.com.:8080/a", "https://example.com:8080/a"),
    ("IDN", "https://Bücher.example/ü", "https://xn--bcher-kva.example/%C3%BC"),
    ("IDN, IDNA 2008 eszett", "https://faß.de/", "https://xn--fa-hia.de/"),
    ("full-width host", "https://ｅｘａｍｐｌｅ.com/", "https://example.com/"),
    ("IPv6 compressed", "http://[2001:DB8:0:0::1]:80/", "http://[2001:db8::1]/"),
    ("IPv4 hexadecimal", "http://0x7f.1/", "http://127.0.0.1/"),
    ("IPv4 decimal", "http://2130706433/", "http://127.0.0.1/"),
    ("IPv4 octal", "http://0177.0.0.01/", "http://127.0.0.1/"),
    ("white space around", " \n\thttps://example.com/a \r\n", "https://example.com/a"),
    ("line break inside", "https://example.com/a\n/b", "https://example.com/a/b"),
    ("controls around", "\x00https://example.com/\x1f", "https://example.com/"),
    ("lone surrogate", "https://example.com/\ud800", "https://example.com/%EF%BF%BD"),
    ("one tracker", "https://example.com/a?utm_source=rss", "https://example.com/a"),
    (
        "trackers among others",
        "https://example.com/?b=+1&utm_source=x&a=%20&fbclid=y",
        "https://example.com/?b=+1&a=%20",
    ),
    ("tracker name in a value", "https://example.com/?q=utm_source", "https://example.com/?q=utm_source"),
    ("exactly the limit", LONG, LONG),
    ("long only by its tracker", LONG + "?utm_source=x", LONG),
]

# (name, given, reason)
REJECTED = [
    ("empty", "", "empty"),
    ("blank", " \t\n", "empty"),
    ("relative", "/a/b", "unparsable"),
    ("no scheme", "example.com/a", "unparsable"),
    ("no host", "https://", "unparsable"),
    ("bad port", "https://example.com:99999/", "unparsable"),
    ("space in host", "https://exa mple.com/", "unparsable"),
    ("bad IPv6", "http://[::1/", "unparsable"),
    ("bad IPv4", "http://256.1.1.1/", "unparsable"),
    ("wrong punycode", "http://xn--pokxncvks/", "unparsable"),
    ("ftp", "ftp://example.com/a", "scheme"),
    ("javascript", "javascript:alert(1)", "scheme"),
    ("data", "data:text/html,hi", "scheme"),
    ("file", "file:///etc/passwd", "scheme"),
    ("mailto", "mailto:a@example.com", "scheme"),
    ("host that looks like a scheme", "localhost:8080/a", "scheme"),
    ("user", "https://user@example.com/", "credentials"),
    ("user and password", "https://user:pass@example.com/", "credentials"),
    ("look-alike host", "https://www.bank.com@evil.example/", "credentials"),
    ("only a dot", "http://./", "no_host"),
    ("two trailing dots", "http://0x7f.1../", "no_host"),
    ("one character too long", LONG + "a", "too_long"),
]

# (name, given, normal)
NORMAL = [
    ("root keeps its slash", "https://example.com", "https://example.com/"),
    ("trailing slash", "https://example.com/a/", "https://example.com/a"),
    ("trailing slashes", "https://example.com/a///", "https://example.com/a"),
    ("trailing slash before query", "https://example.com/a/?b=1", "https://example.com/a?b=1"),
    ("query sorted", "https://example.com/?b=1&a=2", "https://example.com/?a=2&b=1"),
    ("repeated parameter keeps its order", "https://example.com/?a=2&b=1&a=1", "https://example.com/?a=2&a=1&b=1"),
    ("empty pairs dropped", "https://example.com/?&a=1&&", "https://example.com/?a=1"),
    ("empty value and no value differ", "https://example.com/?b&a=", "https://example.com/?a=&b"),
    ("percent upper case", "https://example.com/%c3%a9?q=%c3%a9", "https://example.com/%C3%A9?q=%C3%A9"),
    ("unreserved decoded", "https://example.com/%7Ej%61ne?%61=%2D", "https://example.com/~jane?a=-"),
    ("reserved stays encoded", "https://example.com/a%2Fb?c%3Dd=e%26f", "https://example.com/a%2Fb?c%3Dd=e%26f"),
    ("stray percent", "https://example.com/100%?a=%%34%31", "https://example.com/100%25?a=%2541"),
    ("brackets and bars", "https://example.com/a|b?c[]=1", "https://example.com/a%7Cb?c%5B%5D=1"),
    ("plus is not a space", "https://example.com/?q=a+b", "https://example.com/?q=a+b"),
    ("http is not https", "http://example.com/a", "http://example.com/a"),
    ("www is not the bare domain", "https://www.example.com/a", "https://www.example.com/a"),
    ("trackers, fragment, case", "HTTPS://Example.com/a/?utm_x=1#b", "https://example.com/a"),
]

# (given, clean, uid of the clean URL, normal). A changed row changes people's keys: raise NORMALISER_VERSION.
GOLDEN = [
    (
        "https://www.bbc.co.uk/news/articles/c1?at_medium=RSS&at_campaign=KARANGA",
        "https://www.bbc.co.uk/news/articles/c1",
        "49b4474c9488795a",
        "https://www.bbc.co.uk/news/articles/c1",
    ),
    (
        "HTTP://Bücher.Example:80/Ü/../ü/?b=2&a=1&utm_source=rss#x",
        "http://xn--bcher-kva.example/%C3%BC/?b=2&a=1",
        "d89cee4dffc7d274",
        "http://xn--bcher-kva.example/%C3%BC?a=1&b=2",
    ),
    (
        "https://example.com./%7Ejane/?q=a+b&q=a%20b&empty=",
        "https://example.com/%7Ejane/?q=a+b&q=a%20b&empty=",
        "f096139446ef0f52",
        "https://example.com/~jane?empty=&q=a+b&q=a%20b",
    ),
    ("https://[2001:DB8::0:1]:8443", "https://[2001:db8::1]:8443/", "2c8b5e3bba3c23f6", "https://[2001:db8::1]:8443/"),
]


@pytest.mark.parametrize(("given", "expected"), [row[1:] for row in CLEAN], ids=[row[0] for row in CLEAN])
def test_clean(given: str, expected: str) -> None:
    """A clean URL is the WHATWG form without tracker and fragment, and nothing else has changed."""
    assert clean_url(given) == expected


@pytest.mark.parametrize(("given", "reason"), [row[1:] for row in REJECTED], ids=[row[0] for row in REJECTED])
def test_rejected(given: str, reason: str) -> None:
    """What cannot or must not be fetched is turned away with its reason, and keeps its text."""
    assert clean_url(given) == RejectedUrl(given, reason)


@pytest.mark.parametrize(("given", "expected"), [row[1:] for row in NORMAL], ids=[row[0] for row in NORMAL])
def test_normal(given: str, expected: str) -> None:
    """Links that differ only in ways no server should mind share one normal form."""
    assert normalise_url(given) == expected


@pytest.mark.parametrize("given", ["https://user:secret@example.com/", "mailto:a@example.com", ""])
def test_no_identity(given: str) -> None:
    """A rejected URL has no normal form, and the error does not repeat a password."""
    with pytest.raises(ValueError, match="without identity") as caught:
        normalise_url(given)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("given", "cleaned", "uid", "normalised"), GOLDEN)
def test_golden(given: str, cleaned: str, uid: str, normalised: str) -> None:
    """Identity has not moved since normaliser version 1."""
    assert NORMALISER_VERSION == 1
    assert clean_url(given) == cleaned
    assert ids.article_uid(cleaned) == uid
    assert normalise_url(given) == normalised


def test_users_trackers() -> None:
    """The user's own parameters go too, from clean and normal form alike."""
    own = tracking_parameters.tracker_matcher(("session", "x_"))
    assert clean_url("https://example.com/?session=1&X_y=2&a=3&utm_id=4", own) == "https://example.com/?a=3"
    assert normalise_url("https://example.com/a/?session=1", own) == "https://example.com/a"


@pytest.mark.parametrize(
    ("base", "ref", "expected"),
    [
        ("https://example.com/feed.xml", "a.html", "https://example.com/a.html"),
        ("https://example.com/x/feed.xml", "../a?b#c", "https://example.com/a?b#c"),
        ("https://example.com/feed", "//cdn.example.com/a", "https://cdn.example.com/a"),
        ("https://example.com/feed", "http://other.example/a", "http://other.example/a"),
        ("https://example.com/feed", "http://[broken", "http://[broken"),
        ("not a base", "a.html", "a.html"),
        ("https://example.com/", "\ud800", "https://example.com/%EF%BF%BD"),
    ],
)
def test_join(base: str, ref: str, expected: str) -> None:
    """A reference is made absolute as in a browser; what cannot be joined comes back as it was."""
    assert join_url(base, ref) == expected


@pytest.mark.parametrize(
    ("given", "host", "origin"),
    [
        ("https://User:pw@WWW.Example.com.:8443/a", "www.example.com", "https://www.example.com:8443"),
        ("http://example.com:80", "example.com", "http://example.com"),
        ("http://[::1]:8080/", "::1", "http://[::1]:8080"),
        ("http://0x7f.1/", "127.0.0.1", "http://127.0.0.1"),
        ("ftp://example.com/", "", ""),
        ("nonsense", "", ""),
    ],
)
def test_host_and_origin(given: str, host: str, origin: str) -> None:
    """Host and origin come in one spelling, without secrets; other schemes have none."""
    assert (host_of(given), origin_of(given)) == (host, origin)


def test_parts() -> None:
    """The pieces carry the port that would be dialled."""
    assert split_url("https://Example.com/a?b#c") == ("https", "example.com", 443, "/a", "b")
    assert split_url("mailto:a@example.com") is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("www.bbc.co.uk", "bbc.co.uk"),
        ("https://news.bbc.co.uk:8080/a", "bbc.co.uk"),
        ("WWW.Example.COM.", "example.com"),
        ("someone.blogspot.com", "someone.blogspot.com"),
        ("www.someone.github.io", "someone.github.io"),
        ("github.io", "github.io"),
        ("co.uk", "co.uk"),
        ("a.unknown-tld", "a.unknown-tld"),
        ("www.пример.рф", "xn--e1afmkfd.xn--p1ai"),
        ("www.example.公司.cn", "example.xn--55qx5d.cn"),
        ("localhost", "localhost"),
        ("http://localhost:8000/", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("http://127.1:80/", "127.0.0.1"),
        ("[::1]:8080", "::1"),
        ("::1", "::1"),
        ("example.com:8080", "example.com"),
        ("", ""),
        ("not a host", ""),
        ("mailto://x", ""),
    ],
)
def test_registrable_domain(given: str, expected: str) -> None:
    """Hosts of one owner share a domain; tenants of one platform do not; an address is its own."""
    assert registrable_domain(given) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("https://xn--bcher-kva.example:8080/a?b", "https://bücher.example:8080/a?b"),
        ("https://www.xn--bcher-kva.example/", "https://www.bücher.example/"),
        ("https://example.com/xn--bcher-kva", "https://example.com/xn--bcher-kva"),
        ("https://example.com/.xn--bcher-kva", "https://example.com/.xn--bcher-kva"),
        ("http://[::1]:80/.xn--a", "http://[::1]/.xn--a"),
        ("nonsense", "nonsense"),
    ],
)
def test_display(given: str, expected: str) -> None:
    """People see the host in its own letters."""
    assert display_url(given) == expected


# ── properties ──────────────────────────────────────────────────────────────────────────────────

_piece = st.text(st.sampled_from("aB1.~-_%/?&=+;:#@[]|é \\'\"utm_2541Ee"), max_size=20)
_host = st.sampled_from(
    ["example.com", "EXAMPLE.com.", "bücher.de", "[::1]", "0x7f.1", "a.b.", "medium.com", "x..", "1."]
)
_links = st.builds(
    "{}://{}{}/{}?{}#{}".format, st.sampled_from(["http", "HTTPS"]), _host, st.sampled_from(["", ":80", ":8080"]),
    _piece, _piece, _piece,
)  # fmt: skip


@given(st.text() | _links)
@example("http://\ud800/")
def test_clean_never_raises(text: str) -> None:
    """Any text at all gives a URL or a reason."""
    cleaned = clean_url(text)
    assert isinstance(cleaned, (str, RejectedUrl))
    join_url(text, text)
    registrable_domain(text)
    display_url(text)


@given(_links)
def test_clean_is_idempotent(link: str) -> None:
    """Cleaning twice is cleaning once."""
    cleaned = clean_url(link)
    assume(isinstance(cleaned, str))
    assert clean_url(cleaned) == cleaned


@given(_links)
@example("http://example.com/%%34%31")
@example("http://example.com/?%75tm_source=1&amp;utm_x=2")
@example("http://example.com/a/%2F/")
def test_normal_is_idempotent(link: str) -> None:
    """The normal form of a URL, of its clean form and of its normal form are one."""
    cleaned = clean_url(link)
    assume(isinstance(cleaned, str))
    normalised = normalise_url(link)
    assert normalise_url(cleaned) == normalised
    assert normalise_url(normalised) == normalised


PLAIN = [
    "https://example.org/",
    "https://example.org/a//b/c-d_e~f.html?x=1&y=2",
    "https://example.org/?",
    "http://127.0.0.1:8080/p1",
]
NOT_PLAIN = [
    *("http://127.1/", "http://0x7f.1/a", "http://example.org:80/a", "https://example.org:443/", "http://a..b/"),
    *("https://example.org/a/../b", "https://example.org/.a", "https://example.org/%2e%2e/b", "http://999.1.1.1/"),
    *("https://Example.org/", "https://example.org", "https://u@example.org/", "https://example.org/é", "http://a:b/"),
]


@pytest.mark.parametrize("url", PLAIN + NOT_PLAIN)
def test_urls_that_are_not_parsed_are_as_the_parser_has_them(url: str) -> None:
    """A URL that is returned without a parse is what a parse would have returned."""
    try:
        parsed = str(ada_url.normalize_url(url))
    except ValueError:
        parsed = ""
    assert normalise.serialise_url(url) == parsed


@pytest.mark.parametrize("url", [*PLAIN, *NOT_PLAIN, "ftp://example.org/", "mailto:a@example.org", "/srv/a.md", ""])
def test_the_host_does_not_depend_on_the_path(url: str) -> None:
    """Host and port are those of the whole URL, whichever part of it was parsed."""
    whole, origin = normalise.split_url(url), normalise.split_origin(url)
    assert (origin and origin[:3]) == (whole and whole[:3])
