"""Main text on real pages with ground truth, beside trafilatura's best mode in the same run."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import extract as bench

DATA = Path(__file__).parents[2] / "shared" / "data" / "articles"
pytestmark = pytest.mark.skipif(not (DATA / "score.py").is_file(), reason=f"no article corpus in {DATA}")
CLOSE = 0.005
STEP = 4
"""Every fourth page: a minute instead of four; `python -m bench.extract` reads them all."""


@pytest.mark.parametrize("corpus", ["aeb", "moz", "traf"])
def test_main_text_is_as_good_as_the_best_mode(corpus: str, full: bool) -> None:
    """Within .005 of trafilatura's fast mode at least, which is its best on two of the three."""
    corpora, score = bench.load(DATA)
    assert score
    every = corpora[corpus]
    pages = every if full else dict(list(every.items())[::STEP])
    ours = bench.f1(bench.ours, pages, score)
    peer = bench.f1(bench.mode_reader(bench.MODES["fast"]), pages, score)

    assert ours > peer - CLOSE
    assert ours > 0.85
