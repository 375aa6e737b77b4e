"""Which parameters go, which stay, and what the user may add."""

from __future__ import annotations

import pytest

from core.urls import tracking_parameters

ANYWHERE = "example.com"

# (name, domain, dropped)
CASES = [
    ("utm_source", ANYWHERE, True),
    ("UTM_Campaign", ANYWHERE, True),
    ("utm_anything_new", ANYWHERE, True),
    ("utm", ANYWHERE, False),
    ("utmost", ANYWHERE, False),
    ("gclid", ANYWHERE, True),
    ("gclid2", ANYWHERE, False),
    ("xgclid", ANYWHERE, False),
    ("FBCLID", ANYWHERE, True),
    ("msclkid", ANYWHERE, True),
    ("mc_eid", ANYWHERE, True),
    ("mc_page", ANYWHERE, False),
    ("_hsenc", ANYWHERE, True),
    ("mtm_campaign", ANYWHERE, True),
    ("pk_campaign", ANYWHERE, True),
    ("pk_id", ANYWHERE, False),
    ("at_medium", ANYWHERE, True),
    ("at_page", ANYWHERE, False),
    ("wt.mc_id", ANYWHERE, True),
    ("utm%5Fsource", ANYWHERE, True),
    ("%75tm_source", ANYWHERE, True),
    ("amp;utm_source", ANYWHERE, True),
    ("amp;id", ANYWHERE, False),
    ("", ANYWHERE, False),
    ("smid", "nytimes.com", True),
    ("smid", ANYWHERE, False),
    ("source", "medium.com", True),
    (".tsrc", "yahoo.com", True),
    ("CMP", "theguardian.com", True),
    ("cmp", ANYWHERE, False),
]

# Names that select a page somewhere; removing one of them loses articles.
SACRED = [
    "id",
    "p",
    "q",
    "page",
    "ref",
    "source",
    "cid",
    "sid",
    "v",
    "story",
    "article",
    "lang",
    "date",
    "t",
    "s",
    "mod",
]


@pytest.mark.parametrize(("name", "domain", "dropped"), CASES)
def test_drops(name: str, domain: str, dropped: bool) -> None:
    """A prefix covers what begins with it, a name only itself, a site's name only that site; case never matters."""
    assert tracking_parameters.tracker_matcher().drops(name, domain) is dropped


@pytest.mark.parametrize("name", SACRED)
def test_names_that_select_pages_stay(name: str) -> None:
    """No list removes, on all sites, what some site selects pages by."""
    assert not tracking_parameters.tracker_matcher().drops(name, ANYWHERE)


def test_users_entries_are_added() -> None:
    """The setting adds to the list and cannot shrink it."""
    own = tracking_parameters.tracker_matcher(("Campaign", "trk_", "promo_*", " spaced ", ""))
    assert [own.drops(name, ANYWHERE) for name in ("campaign", "trk_x", "promo_1", "spaced", "utm_id")] == [True] * 5
    assert not own.drops("campaigns", ANYWHERE)
    assert not own.drops("anything", ANYWHERE)


def test_matcher_is_built_once() -> None:
    """Asking again with the same setting costs nothing."""
    assert tracking_parameters.tracker_matcher(("a",)) is tracking_parameters.tracker_matcher(("a",))


def test_lists_are_tidy() -> None:
    """Entries are lower case, without repeats, and no site repeats what goes everywhere."""
    assert len(set(tracking_parameters.EVERYWHERE)) == len(tracking_parameters.EVERYWHERE)
    assert all(entry == entry.lower().strip() for entry in tracking_parameters.EVERYWHERE)
    shipped = tracking_parameters.tracker_matcher()
    on_sites = tracking_parameters.ON_SITES
    repeated = [(site, name) for site, names in on_sites.items() for name in names if shipped.drops(name, "")]
    assert repeated == []
