"""How much of a text is embedded again after a small edit? `python -m bench.chunks [--edits N] [--texts N]`

Real texts get random small edits: a word or a sentence is put in, taken out or replaced, a paragraph is added. Counted
is the share of chunks whose text was not there before, ours beside a splitter at fixed offsets and one that fills up
paragraph by paragraph. Articles are the corpus beside the checkout (`corpus-aeb.json.gz`); Markdown pages are this
project's own and the READMEs of installed packages. Tokens are those of the default model where its vocabulary is
found (`--vocabulary`), otherwise estimated.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from statistics import mean, median, quantiles

from core.pages.page_document import read_page
from core.pages.text_cleaning import content_hash
from core.search import chunking
from core.search.io.wordpiece import WordPiece

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared"
CORPUS = SHARED / "data" / "articles" / "corpus-aeb.json.gz"
VOCABULARY = SHARED / "data" / "model" / "vocab.txt"
LEAST_CHARS = 2_000
"""A text of two chunks says nothing about locality: any edit changes half of it."""
GOALS = {"Markdown pages": 0.08, "plain articles": 0.20}
WORDS = (
    "river",
    "bridge",
    "ledger",
    "harvest",
    "signal",
    "winter",
    "engine",
    "letter",
)
Count = Callable[[str], int]
Splitter = Callable[[str, Count], list[str]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.chunks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--edits", type=int, default=20, help="edits of each text")
    parser.add_argument("--texts", type=int, default=150, help="at most so many texts of a kind")
    parser.add_argument("--least-chars", type=int, default=LEAST_CHARS, help="leave shorter texts out")
    parser.add_argument("--vocabulary", type=Path, default=VOCABULARY, help="vocab.txt of the default model")
    arguments = parser.parse_args()
    name, count = counter(arguments.vocabulary)
    print(f"tokens: {name}; {arguments.edits} edits of each text\n")
    print(f"{'':28}{'texts':>6}{'new %':>8}{'goal':>6}{'chunks':>9}  tokens: mean  p10  p50  p90  max")
    for kind, all_texts in (("Markdown pages", markdown_pages()), ("plain articles", articles())):
        texts = [text for text in all_texts if len(text) >= arguments.least_chars][: arguments.texts]
        for who, split in SPLITTERS.items():
            report(kind, who, split, texts, count, arguments.edits)
    pace(count)


def counter(vocabulary: Path) -> tuple[str, Count]:
    """The default model's tokenizer, or the estimate."""
    if not vocabulary.is_file():
        return "estimated", chunking.estimate_tokens
    return "WordPiece of the default model", WordPiece(vocabulary.read_text().splitlines()).count


def articles() -> list[str]:
    """News pages as our extractor reads them."""
    if not CORPUS.is_file():
        return []
    pages = json.loads(gzip.decompress(CORPUS.read_bytes()))["pages"].values()
    return [read_page(page["html"], page.get("url", "https://example.org/")).document.markdown for page in pages]


def markdown_pages() -> list[str]:
    """This project's pages, and what installed packages say of themselves in Markdown."""
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *SHARED.glob("*.md")]
    texts = [path.read_text() for path in sorted(files)]
    for package in sorted(metadata.distributions(), key=lambda package: package.metadata["Name"].casefold()):
        if "markdown" in (package.metadata["Description-Content-Type"] or ""):
            texts.append(package.metadata.get_payload() or package.metadata["Description"] or "")  # type: ignore[attr-defined]
    return list(dict.fromkeys(texts))


def ours(text: str, count: Count) -> list[str]:
    return [one.text for one in chunking.chunks("bench", text, count)]


def fixed(text: str, count: Count) -> list[str]:
    """Cut at every 850th character, about 200 tokens."""
    return [text[at : at + 850] for at in range(0, len(text), 850)]


def filled(text: str, count: Count) -> list[str]:
    """Paragraphs are joined as long as they fit, from the top."""
    parts, room = [""], 0
    for paragraph in re.split(r"\n\s*\n", text):
        tokens = count(paragraph)
        if tokens > room:
            parts.append("")
            room = chunking.MOST_TOKENS
        parts[-1] += f"{paragraph}\n\n"
        room -= tokens
    return [part for part in parts if part]


SPLITTERS: dict[str, Splitter] = {"freshet": ours, "filled up": filled, "fixed": fixed}


def report(kind: str, who: str, split: Splitter, texts: list[str], count: Count, edits: int) -> None:
    """One row: the mean share of new chunks, and how large chunks are."""
    if not texts:
        print(f"{kind:16}{who:12}no texts found")
        return
    dice = random.Random(1)
    shares, sizes = [], []
    for text in texts:
        parts = split(text, count)
        sizes += [count(part) for part in parts]
        known = {content_hash(part) for part in parts}
        for edited in edited_texts(text, dice, edits):
            after = [content_hash(part) for part in split(edited, count)]
            shares.append(sum(part not in known for part in after) / len(after))
    tenth, *_, ninth = quantiles(sizes, n=10)
    print(
        f"{kind:16}{who:12}{len(texts):6}{100 * mean(shares):8.1f}{100 * GOALS[kind]:6.0f}{len(sizes):9}"
        f"{mean(sizes):14.0f}{tenth:5.0f}{median(sizes):5.0f}{ninth:5.0f}{max(sizes):5.0f}"
    )


def edited_texts(text: str, dice: random.Random, number: int) -> Iterator[str]:
    """The text, each time with one small edit; every kind of edit in turn."""
    words = [match.span() for match in re.finditer(r"\w+", text)]
    sentences = [match.span() for match in re.finditer(r"\w[^\n.!?]*[.!?](?=\s)", text)] or words
    gaps = [match.start() for match in re.finditer(r"\n\n", text)] or [len(text)]
    for turn in range(number):
        start, end = dice.choice(words if turn % 2 else sentences)
        inserted = " ".join(dice.choices(WORDS, k=1 if turn % 2 else dice.randint(6, 20)))
        inserted = inserted if turn % 2 else f"{inserted.capitalize()}."
        match turn // 2 % 4:
            case 0:
                yield f"{text[:start]}{inserted} {text[start:]}"
            case 1:
                yield text[:start] + text[end:].lstrip(" ")
            case 2:
                yield text[:start] + inserted + text[end:]
            case _:
                gap = dice.choice(gaps)
                inserted = " ".join(dice.choices(WORDS, k=dice.randint(20, 60))).capitalize()
                yield f"{text[:gap]}\n\n{inserted}.{text[gap:]}"


def pace(count: Count) -> None:
    """Seconds for a million characters of Markdown."""
    pages = "\n\n".join(markdown_pages())
    text = (pages * (1 + 1_000_000 // max(1, len(pages))))[:1_000_000]
    print()
    ways = {"characters": lambda text: len(text) // 4, "estimated tokens": chunking.estimate_tokens, "tokens": count}
    for name, counts in ways.items():
        start = time.process_time()
        chunks = chunking.chunks("bench", text, counts)
        print(f"1 MB of Markdown by {name}: {time.process_time() - start:.2f} CPU-s, {len(chunks)} chunks")


if __name__ == "__main__":
    main()
