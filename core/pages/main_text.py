"""Find the main text of a page: decide for each run of text whether it belongs to the article.

A reader mode's scoring and the publisher's own names say where the article may be; learned weights decide run by run.
Where the decision is in doubt, trafilatura is asked: on one page in twenty. Measured by `python -m bench.extract`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from lxml import etree

from core.pages.html_blocks import flat_to_blocks
from core.pages.page_nodes import PageNodes, TextRun, text_runs
from core.pages.text_blocks import TextBlock
from core.pages.text_run_features import RunFeatures, RunScores
from core.pages.text_run_weights import WEIGHTS
from core.pages.tree_to_markdown import tree_to_blocks

MAX_NODES = 20_000
"""The largest article of our corpora has 9,900. Beyond this all text of the page is taken."""
MAX_FOR_LIBRARY = 5_000
"""trafilatura's time is quadratic for some shapes: 4 s at 12,000."""
DOUBTFUL_SCORE = 1.0
DOUBTFUL_SHARE = 0.3
"""So much doubtful text, as a share of the text found, asks for a second opinion; so does very little text."""
LITTLE_CHARS = 250
ENOUGH_SURE_CHARS = 1_000
"""With so much text that is beyond doubt nobody is asked: there a second opinion is wrong as often as right."""
MIN_CHARS = 80
"""Less main text than this is none."""
_SCORES = RunScores(WEIGHTS)


class RunDecision(NamedTuple):
    """Which runs belong to the article, and whether another reader should be asked."""

    dropped: list[TextRun]
    chars: int
    is_doubtful: bool


def find_main_text(root: etree._Element, title: str, weights: Mapping[str, float] = WEIGHTS) -> list[TextBlock]:
    """Return the blocks of the main text; none if it finds none or the page is too large. Changes `root`."""
    nodes = PageNodes(root)
    if nodes.size > MAX_NODES:
        return []
    decision = decide_runs(nodes, title, weights)
    if decision.is_doubtful and nodes.size <= MAX_FOR_LIBRARY:
        from core.pages.trafilatura_fallback import ask_trafilatura  # most pages, and most processes, never need it

        body = ask_trafilatura(root)
        blocks = tree_to_blocks(body) if body is not None else []
        if sum(len(block.text) for block in blocks) >= MIN_CHARS:
            return blocks
    if decision.chars < MIN_CHARS:
        return []
    _blank(nodes, decision.dropped)
    return flat_to_blocks(nodes)


def decide_runs(nodes: PageNodes, title: str, weights: Mapping[str, float]) -> RunDecision:
    """Add up the weights of what is true of each run; more than nothing keeps it."""
    runs = text_runs(nodes)
    features = RunFeatures(nodes, runs, title)
    scores = _SCORES if weights is WEIGHTS else RunScores(weights)
    dropped, chars, doubtful, sure = [], 0, 0, 0
    for number, run in enumerate(runs):
        is_inside = features.is_inside(number)
        if not (is_inside or features.is_lead(number)):
            dropped.append(run)
            continue
        score = scores[features.facts(number)]
        # A lead that stands apart says nothing of the rest.
        if is_inside and abs(score) < DOUBTFUL_SCORE:
            doubtful += len(run.text)
        elif is_inside and score > 0:
            sure += len(run.text)
        if score > 0:
            chars += len(run.text)
        else:
            dropped.append(run)
    is_doubtful = chars < LITTLE_CHARS or doubtful > DOUBTFUL_SHARE * chars
    return RunDecision(dropped, chars, is_doubtful and sure < ENOUGH_SURE_CHARS)


def _blank(nodes: PageNodes, runs: list[TextRun]) -> None:
    """Take the words out of the lists; an element without words makes no block."""
    pieces, texts, tails = nodes.pieces, nodes.texts, nodes.tails
    for _, _, _, first, end in runs:
        for number, is_tail, _ in pieces[first:end]:
            if is_tail:
                tails[number] = ""
            else:
                texts[number] = ""
