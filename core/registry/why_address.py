"""`freshet why`, first station: what a URL is cleaned to, step by step, and which ids follow from it."""

from __future__ import annotations

from collections.abc import Iterator

from core import ids
from core.feeds.feed_links import extract_links
from core.models import FeedEntry, FeedKind, ParsedFeed, RejectedUrl
from core.registry.why_verdict import Station, StationName, StationState
from core.urls.normalise import clean_url, host_of, normalise_url, serialise_url
from core.urls.tracking_parameters import tracker_matcher
from core.urls.unwrap import unwrap
from core.value_class import value_class

MOST_CHARS = 8_192
"""A name longer than this is not looked up: no URL that is taken is a quarter as long."""
_SHOWN_CHARS = 300

REFUSALS = {
    "empty": "There is no URL in it.",
    "unparsable": "It cannot be read as a URL.",
    "scheme": "Only http and https are fetched.",
    "credentials": "It carries a user name or a password, and Freshet keeps no secrets in URLs.",
    "no_host": "It names no host.",
    "no_link": "There is no URL in it.",
    "too_long": "It is longer than 2,048 characters.",
    "aggregator_opaque": "It is an aggregator's link, and only the aggregator's server knows where it leads.",
    "aggregator_target": "It is an aggregator's link, and what it leads to is not a web address.",
    "aggregator_depth": "It is an aggregator's link on an aggregator's link, too often.",
    "private_address": "It leads to a private address.",
}
_ADVICE = {
    "aggregator_opaque": "Open it in a browser, and ask for the address of the page that it leads to.",
    "credentials": "Give the URL without them.",
    "private_address": "If the server is yours, name it in FETCH_ALLOWED_HOSTS.",
    "scheme": "Give the address of a web page, or the absolute path of a file.",
}


@value_class
class CleaningStep:
    """One thing that was done to the URL."""

    name: str
    text: str


@value_class
class CleanedAddress:
    """A URL before and after cleaning."""

    given: str
    clean: str = ""
    """What would be stored and fetched; empty if it is refused."""
    normal: str = ""
    steps: tuple[CleaningStep, ...] = ()
    refusal: str = ""
    """The reason in one word, as feeds count it."""
    unwrapped: str = ""
    """What an aggregator's link leads to."""

    @property
    def uid(self) -> str:
        """The uid that a link of this URL has."""
        return ids.article_uid(self.clean) if self.clean else ""

    @property
    def item_id(self) -> str:
        return ids.item_id("url", self.normal) if self.normal else ""


def clean_address(
    given: str, tracking_params: tuple[str, ...] = (), allowed_hosts: tuple[str, ...] = ()
) -> CleanedAddress:
    """Clean a URL as an entry of a feed is cleaned, and say what was done to it."""
    if len(given) > MOST_CHARS:
        return CleanedAddress(given[:_SHOWN_CHARS] + "…", refusal="too_long")
    links = extract_links(ParsedFeed(FeedKind.RSS, entries=(FeedEntry(link=given),)), tracking_params, allowed_hosts)
    target = unwrap(given)
    unwrapped = target if isinstance(target, str) and target != given else ""
    if links.rejected:
        reason = links.rejected[0].reason.partition(" ")[0]
        return CleanedAddress(given, steps=tuple(_unwrapping(given, unwrapped)), refusal=reason, unwrapped=unwrapped)
    clean = links.links[0]
    normal = normalise_url(clean, tracker_matcher(tracking_params))
    steps = tuple(_steps(given, unwrapped, clean, tracking_params))
    return CleanedAddress(given, clean, normal, steps, unwrapped=unwrapped)


def _steps(given: str, unwrapped: str, clean: str, tracking_params: tuple[str, ...]) -> Iterator[CleaningStep]:
    yield from _unwrapping(given, unwrapped)
    before = unwrapped or given
    if "#" in before:
        yield CleaningStep("fragment", f"the fragment #{before.partition('#')[2][:80]} was dropped")
    matcher = tracker_matcher(tracking_params)
    without_trackers = clean_url(before, matcher)
    dropped = [] if isinstance(without_trackers, RejectedUrl) else _dropped(serialise_url(before), without_trackers)
    if dropped:
        yield CleaningStep("trackers", f"tracking parameters were dropped: {', '.join(dropped)}")
    if without_trackers != clean:
        yield CleaningStep("secrets", "secret parameters were dropped; they are stored nowhere")
    if not dropped and serialise_url(before) != before.partition("#")[0] and without_trackers == clean:
        yield CleaningStep("spelling", "it is spelt as browsers do (lower-case host, default port, dots in the path)")


def _unwrapping(given: str, unwrapped: str) -> Iterator[CleaningStep]:
    if unwrapped:
        yield CleaningStep("unwrapped", f"unwrapped from {host_of(given)}, an aggregator's redirect")


def _dropped(before: str, after: str) -> list[str]:
    """Return the names of the parameters that are gone."""
    kept = after.partition("?")[2].split("&")
    names: dict[str, None] = {}
    for pair in before.partition("?")[2].split("&"):
        if pair in kept:
            kept.remove(pair)
        elif pair:
            names[pair.partition("=")[0][:40]] = None
    return list(names)


def address_station(address: CleanedAddress) -> Station:
    """Return the station that says what the URL is cleaned to, or why such a URL is not taken."""
    facts: dict[str, object] = {
        "given": address.given,
        "clean": address.clean,
        "normal": address.normal,
        "uid": address.uid,
        "item_id": address.item_id,
        "steps": [{"name": step.name, "text": step.text} for step in address.steps],
        "refusal": address.refusal,
    }
    if address.refusal:
        sentence = REFUSALS.get(address.refusal, f"It is not taken ({address.refusal}).")
        return Station(StationName.ADDRESS, StationState.STOPPED, sentence, facts, _ADVICE.get(address.refusal, ""))
    done = "; ".join(step.text for step in address.steps)
    sentence = f"Cleaned to {address.clean} ({done})." if done else f"Clean as it is: {address.clean}"
    return Station(StationName.ADDRESS, StationState.PASSED, sentence, facts)


def name_station(name: str, path: str) -> Station:
    """Return the station that says what an item id, a uid or a path stands for."""
    sentence = f"It names {path}." if path else "It is the uid of a link whose URL is not stored."
    return Station(StationName.ADDRESS, StationState.PASSED, sentence, {"given": name, "path": path})


def unknown_name_station(name: str) -> Station:
    """Return the station that says that an item id or a uid stands for nothing."""
    sentence = "Nothing that is stored has this id or uid."
    advice = "Give a URL, an absolute path, an item id (url_…, file_…) or an article's uid."
    return Station(StationName.LISTING, StationState.STOPPED, sentence, {"given": name}, advice)


# ── near misses ─────────────────────────────────────────────────────────────────────────────────


def similar_urls(clean: str) -> dict[str, str]:
    """Return other spellings of a URL under which a page may be known, each with the difference."""
    scheme, _, rest = clean.partition("://")
    host, slash, path = rest.partition("/")
    other_scheme = "http" if scheme == "https" else "https"
    other_host = host.removeprefix("www.") if host.startswith("www.") else f"www.{host}"
    www = "without www." if host.startswith("www.") else "with www."
    similar = {
        f"{other_scheme}://{rest}": f"{other_scheme} instead of {scheme}",
        f"{scheme}://{other_host}{slash}{path}": www,
        f"{other_scheme}://{other_host}{slash}{path}": f"{other_scheme} instead of {scheme}, {www}",
    }
    before, question, _ = clean.partition("?")
    if question:
        similar[before] = "without its query"
    path_only = before.partition("://")[2]
    other_slash = before.rstrip("/") if before.endswith("/") and path_only.count("/") > 1 else f"{before}/"
    similar[other_slash] = "with another trailing slash"
    for page in ("index.html", "index.htm", "index.php"):
        if before.endswith(f"/{page}"):
            similar[before.removesuffix(page)] = f"without {page}"
    similar.pop(clean, None)
    return similar
