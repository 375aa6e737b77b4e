"""What a result shows of the passages that were found."""

from __future__ import annotations

from core.search.io.replica_stemming import terms
from core.search.models import ChunkText, Hit, IndexedPage
from core.search.results import Candidate, build_result


def test_headings_are_shown_as_words() -> None:
    """The headings above a passage have none of Markdown's marks; other backslashes stay."""
    page = IndexedPage("i_1", "v1")
    texts = {
        "c_1": ChunkText(
            "The weir.", ("What \\<script> does", "In C:\\Users", "`weir` &amp; [mill](m.html)[^1]", "---")
        )
    }
    found = build_result([Candidate(page, 1.0, (Hit("c_1", "i_1", "v1", 1.0),))], {"i_1": page}, texts, "weir")

    assert found.passages[0].headings == ("What <script> does", "In C:\\Users", "weir & mill", "---")


def test_snippets_are_plain_text() -> None:
    """A passage is shown without Markdown's marks, and what is marked are its words, stemmed as in the index."""
    page = IndexedPage("i_1", "v1", detected_language="en")
    texts = {"c_1": ChunkText("## The **weirs**\n\n- The [old weir](https://a.example/short) in `2024`")}
    hits = (Hit("c_1", "i_1", "v1", 1.0),)
    found = build_result([Candidate(page, 1.0, hits)], {"i_1": page}, texts, "the weir of 2024", terms)

    shown, ranges = found.passages[0].snippet, found.passages[0].highlights
    assert shown == "The weirs\n\nThe old weir in 2024"
    assert [shown[first:last] for first, last in ranges] == ["weirs", "weir", "2024"]
