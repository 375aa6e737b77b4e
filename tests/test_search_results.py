"""What a result shows of the passages that were found."""

from __future__ import annotations

from core.search.models import ChunkText, Hit, IndexedPage
from core.search.results import Candidate, build_result


def test_headings_are_shown_as_words() -> None:
    """The headings above a passage have none of Markdown's escapes; other backslashes stay."""
    page = IndexedPage("i_1", "v1")
    texts = {"c_1": ChunkText("The weir.", ("What \\<script> does", "In C:\\Users"))}
    found = build_result([Candidate(page, 1.0, (Hit("c_1", "i_1", "v1", 1.0),))], {"i_1": page}, texts, "weir")

    assert found.passages[0].headings == ("What <script> does", "In C:\\Users")
