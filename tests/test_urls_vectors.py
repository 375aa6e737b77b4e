"""The policy against other people's vectors: WHATWG's own, and three libraries with three policies.

The vectors are not part of the project; without them these tests are skipped.
Where we differ from a library on purpose, the difference and its reason stand in a table here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.models import RejectedUrl
from core.urls.normalise import clean_url, display_url, host_of, join_url, normalise_url, origin_of, registrable_domain

VECTORS = Path(__file__).resolve().parents[2] / "shared" / "data" / "urls"

pytestmark = pytest.mark.skipif(not VECTORS.is_dir(), reason="URL vectors are not on this machine")


def load(name: str) -> list[Any]:
    path = VECTORS / name
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []


def clean(url: str, *_: str) -> str:
    """The clean URL, or its reason in angle brackets."""
    cleaned = clean_url(url)
    return f"<{cleaned.reason}>" if isinstance(cleaned, RejectedUrl) else cleaned


def normal(url: str) -> str:
    cleaned = clean(url)
    return cleaned if cleaned.startswith("<") else normalise_url(url)


# ── WHATWG ──────────────────────────────────────────────────────────────────────────────────────

WHATWG = [case for case in load("whatwg-urltestdata.json") if isinstance(case, dict)]


def _cleaned(case: dict[str, Any]) -> str:
    base = case.get("base")
    return clean(join_url(base, case["input"]) if base else case["input"])


def _by_our_rules(case: dict[str, Any]) -> str:
    """What the standard's own answer becomes by the rules of docs/urls.md."""
    if case["protocol"] not in ("http:", "https:"):
        return "<scheme>"
    if case["username"] or case["password"]:
        return "<credentials>"
    host, search = case["hostname"].removesuffix("."), case["search"]
    if not host:
        return "<no_host>"
    port = f":{case['port']}" if case["port"] else ""
    return f"{case['protocol']}//{host}{port}{case['pathname']}{search}"


def _shown(case: dict[str, Any]) -> str:
    return ascii(f"{case['input'][:60]} on {case.get('base')}")


@pytest.mark.parametrize("case", [c for c in WHATWG if not c.get("failure")], ids=_shown)
def test_whatwg_success(case: dict[str, Any]) -> None:
    """What the standard parses we parse alike, less what our rules take away."""
    assert _cleaned(case) == _by_our_rules(case)


@pytest.mark.parametrize("case", [c for c in WHATWG if c.get("failure")], ids=_shown)
def test_whatwg_failure(case: dict[str, Any]) -> None:
    """What the standard refuses we refuse, without an exception."""
    assert _cleaned(case) in ("<unparsable>", "<empty>", "<scheme>")


# ── punycode ────────────────────────────────────────────────────────────────────────────────────


def _is_label(text: str) -> bool:
    return bool(text) and not text.isascii() and text.isprintable() and " " not in text


PUNYCODE = [(c["decoded"], c["encoded"]) for c in load("idna-punycode_tests.json") if _is_label(c["decoded"])]


@pytest.mark.parametrize(("decoded", "encoded"), PUNYCODE)
def test_punycode(decoded: str, encoded: str) -> None:
    """A host goes to ASCII for identity and comes back in its own letters for people."""
    ascii_url = f"http://xn--{encoded.lower()}.example/"
    assert clean(f"http://{decoded}.example/") == ascii_url
    assert display_url(ascii_url) == f"http://{decoded.lower()}.example/"


# ── three libraries ─────────────────────────────────────────────────────────────────────────────

Ours = Callable[..., str]

# Covered: functions that mean the same as one of ours. Not covered, and why:
#   w3lib url_query_cleaner, url_query_parameter, add_or_replace_parameter   tools, no policy
#   courlan scrub_url, clean_url      mend broken markup; the feed parser's work, not the URL's
#   courlan check_url, *_filter, is_*, validate_url   guess language and worth from a URL; we read the page
#   url-normalize normalize_userinfo, provide_url_scheme   we refuse credentials and guess no scheme
COVERED: dict[tuple[str, str], Ours] = {
    ("w3lib", "canonicalize_url"): normal,
    ("w3lib", "safe_url_string"): clean,
    ("w3lib", "safe_download_url"): clean,
    ("courlan", "normalize_url"): normal,
    ("courlan", "extract_domain"): lambda url: registrable_domain(url) or None,
    ("courlan", "fix_relative_urls"): join_url,
    ("courlan", "get_base_url"): origin_of,
    ("url-normalize", "url_normalize"): normal,
    ("url-normalize", "normalize_host"): lambda host: host_of(f"http://{host}"),
}

# Options under which a vector still asks our question; others ask for another policy.
SAME_QUESTION: list[dict[str, Any]] = [{}, {"strict": True}, {"fast": True}]

SLASH = "the trailing slash is no part of identity"
ROOT = "an empty path is written `/`, as WHATWG does"
PORT = "a default port is dropped"
FRAGMENT = "a fragment never reaches the server"
PAIRS = "a name without `=` stays so, and `,` stays raw: some servers tell them apart"

URL_IN_URL = (
    "http://www.example.com/path/to/%23/foo/bar"
    "?url=http%3A%2F%2Fwww.example.com%2F%2Fpath%2Fto%2F%23%2Fbar%2Ffoo"
)  # fmt: skip

# input: (ours, reason)
DIFFERENT: dict[str, tuple[str, str]] = {
    "http://www.example.com/do?b=&c&a=2": ("http://www.example.com/do?a=2&b=&c", PAIRS),
    "http://www.example.com/do?1750,4": ("http://www.example.com/do?1750,4", PAIRS),
    "http://foo.com/AC%2FDC+rocks%3f/?yeah=1": ("http://foo.com/AC%2FDC+rocks%3F?yeah=1", SLASH),
    "http://foo.com/AC%2FDC/": ("http://foo.com/AC%2FDC", SLASH),
    "https://taz.de/Zukunft-des-49-Euro-Tickets/!5968518/": (
        "https://taz.de/Zukunft-des-49-Euro-Tickets/!5968518",
        SLASH,
    ),
    "http://.éxamplé.com/résumé?q=résumé": (
        "http://.xn--xampl-9raf.com/r%C3%A9sum%C3%A9?q=r%C3%A9sum%C3%A9",
        "an odd host is still written in ASCII",
    ),
    "http://www.example.com:80/résumé?q=résumé": ("http://www.example.com/r%C3%A9sum%C3%A9?q=r%C3%A9sum%C3%A9", PORT),
    "http://新华网.中国:80": ("http://xn--xkrr14bows.xn--fiqs8s/", PORT),
    f"{URL_IN_URL}#frag": (URL_IN_URL, FRAGMENT),
    "http://test.org/#page2": ("http://test.org/", FRAGMENT),
    "https://docs.google.com/spreadsheets/d/abcd/edit#gid=1234": (
        "https://docs.google.com/spreadsheets/d/abcd/edit",
        FRAGMENT,
    ),
    "https://hanxiao.io//404.html": ("https://hanxiao.io//404.html", "`//` can name another page than `/`"),
    "http://Mnchen-3ya.de": ("http://mnchen-3ya.de/", ROOT),
    "http://xn--München.de": ("<unparsable>", "not punycode; no browser opens it"),
    "http://test.org/?this_affiliate=0": ("http://test.org/?this_affiliate=0", "no list of ours has it; it may select"),
    "http://example.com/?q=C%CC%A7": ("http://example.com/?q=C%CC%A7", "servers compare bytes: no NFC"),
    "h": ("h", "a bare name, such as localhost, is its own domain"),
    "https://www.example.org": ("https://www.example.org/%7Bprivacy%7D", "a template is a path to a browser too"),
}  # fmt: skip


def _vectors() -> list[tuple[str, str, list[str], str]]:
    found = []
    for library in ("w3lib", "courlan", "url-normalize"):
        for vector in load(f"{library}-vectors.json"):
            covered = (library, vector["function"]) in COVERED and vector["kwargs"] in SAME_QUESTION
            if covered and all(isinstance(arg, str) for arg in vector["args"]):
                found.append((library, vector["function"], vector["args"], vector["expected"]))
    return found


def _refused(url: str) -> str:
    """Relative references, other schemes and credentials: refused as a class, whatever a library makes of them."""
    answer = clean(url)
    return answer if answer in ("<empty>", "<unparsable>", "<scheme>", "<credentials>") else ""


@pytest.mark.parametrize(("library", "function", "args", "expected"), _vectors())
def test_library(library: str, function: str, args: list[str], expected: str) -> None:
    """Where a library's function means what ours means, the answers agree, or the table says why not."""
    ours = COVERED[library, function]
    got = ours(*args)
    if got == expected:
        return
    if ours in (clean, normal) and args[0] not in DIFFERENT:
        assert got == _refused(args[0])
    else:
        assert got == DIFFERENT[args[0]][0]
