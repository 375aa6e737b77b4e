"""Which results stand together: the same text, and a page by http and by https; never two pages of one path."""

from __future__ import annotations

from core.registry.record import content_group
from core.search.models import IndexedPage
from core.search.results import Candidate, fold_duplicates


def found(*pages: tuple[str, str]) -> list[Candidate]:
    """Candidates by URL and text, best first."""
    return [
        Candidate(IndexedPage(url, text, url=url, content_group=content_group(url)), 1 - place / 1000, ())
        for place, (url, text) in enumerate(pages)
    ]


def urls(candidates: list[Candidate]) -> list[list[str]]:
    return [[one.page.url for one in group] for group in fold_duplicates(candidates)]


def test_page_by_http_and_by_https_is_one() -> None:
    """Also if their texts differ a little; none of them is lost, and the place is that of the better one."""
    assert urls(found(("http://e.org/a?x=1", "1"), ("https://e.org/b", "2"), ("https://e.org/a?x=1", "3"))) == [
        ["http://e.org/a?x=1", "https://e.org/a?x=1"],
        ["https://e.org/b"],
    ]


def test_pages_of_one_path_are_not_folded() -> None:
    """Another query is another page, unless the text is the same."""
    pages = [("https://e.org/a?id=1", "1"), ("https://e.org/a?id=2", "2"), ("https://e.org/a", "3")]

    assert urls(found(*pages)) == [[url] for url, _ in pages]
    assert urls(found(*pages, ("https://e.org/a?id=1&print=1", "1")))[0] == [
        pages[0][0],
        "https://e.org/a?id=1&print=1",
    ]


def test_a_page_joins_what_it_has_in_common_with_two() -> None:
    """One by its text, the other by its address: all three are one result, in the first place."""
    pages = [("https://e.org/a", "1"), ("https://other.org/", "2"), ("https://e.org/z", "9"), ("http://e.org/a", "2")]

    assert urls(found(*pages)) == [["https://e.org/a", "https://other.org/", "http://e.org/a"], ["https://e.org/z"]]


def test_files_are_folded_by_their_text_alone() -> None:
    """What has no scheme, or no group, shares no address."""
    assert (
        len(fold_duplicates([Candidate(IndexedPage(str(n), str(n), url="http://e.org/a"), 1.0, ()) for n in range(3)]))
        == 3
    )


def test_folding_many_takes_no_time() -> None:
    """Two thousand candidates, each with both names known."""
    many = found(*((f"http://e.org/{n // 2}", str(n // 3)) for n in range(2_000)))

    assert sum(map(len, fold_duplicates(many))) == 2_000
