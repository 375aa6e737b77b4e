"""How good is search in other languages, and across them? Sections of the Debian Reference through the whole product.

A heading is the question, its section without the heading the answer: mean reciprocal rank at ten. Each language is a
store of its own; across languages a heading in another language asks for the English section. `as before` is the
English model alone and chunks by its tokens. Needs the unpacked packages, en and what is asked for:

    apt-get download debian-reference-de && dpkg -x debian-reference-de_*.deb .
    python -m bench.languages --data usr/share/debian-reference [--languages de,ja] [--questions 100]
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import random
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from lxml import etree, html

from core.runtime.context import Context, open_context
from core.search.io import multilingual_embedder
from core.search.io.local_embedder import LocalEmbedder
from core.search.io.searcher import Searcher, open_searcher
from core.search.models import Query
from core.search.ranking import LEXICAL_WEIGHT
from core.secret_text import SecretStr
from core.settings import Settings
from core.sources.io import read_permission
from core.sources.io.crawl import CrawlMode, crawl_source
from core.sources.io.domain_file import parse_quick
from core.store import embedded
from workers.embed_jobs import embed_items

LANGUAGES = ("de", "es", "fr", "it", "pt", "ja", "zh-cn")
LEAST_CHARACTERS = 200
DEPTH = 10
Sections = dict[str, tuple[str, str]]
"""Heading and text by the anchor, which is the same in all languages."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.languages", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with ch01.en.html and so on")
    parser.add_argument("--languages", default=",".join(LANGUAGES))
    parser.add_argument("--questions", type=int, default=100, help="for each language")
    given = parser.parse_args()
    languages = given.languages.split(",")
    sections = {name: read(given.data, name) for name in ("en", *languages)}
    shared = sorted(set.intersection(*(set(own) for own in sections.values())))
    asked = random.Random(1).sample(shared, min(given.questions, len(shared)))
    print(
        f"{len(asked)} questions in each language; sections: { ({name: len(own) for name, own in sections.items()}) }"
    )
    for name in languages:
        questions = {sections[name][anchor][0]: anchor for anchor in asked}
        with as_before():
            old = run(sections[name], name, [questions])[0]
        new = run(sections[name], name, [questions])[0]
        print(f"{name:6} as before: {old}   now: {new}")
    questions_of = [{sections[name][anchor][0]: anchor for anchor in asked} for name in ("en", *languages)]
    across = run(sections["en"], "en", questions_of, search_across_languages=True)
    for name, line in zip(("en", *languages), across, strict=True):
        print(f"{name:6} asks for English sections: {line}")


def read(folder: Path, language: str) -> Sections:
    """Return the sections that are long enough."""
    found: Sections = {}
    for path in sorted(folder.glob(f"ch*.{language}.html")):
        tree: Any = html.fromstring(path.read_bytes(), parser=html.HTMLParser(encoding="utf-8"))
        for section in tree.xpath("//div[@class='section']"):
            titles = section.xpath("./div[@class='titlepage']//*[self::h2 or self::h3 or self::h4]")
            anchors = section.xpath("./div[@class='titlepage']//a/@id")
            parts = [part for part in section if part.get("class") not in ("titlepage", "section", "toc")]
            text = "\n\n".join(" ".join(etree.tostring(p, method="text", encoding="unicode").split()) for p in parts)
            if titles and anchors and len(text) >= LEAST_CHARACTERS:
                heading = re.sub(r"^[\d.\s]+", "", " ".join(titles[0].text_content().split()))
                found[anchors[0]] = (heading, text)
    return found


@contextmanager
def as_before() -> Iterator[None]:
    """The English model alone, and chunks by its tokens."""
    with (
        mock.patch.object(multilingual_embedder, "is_installed", return_value=False),
        mock.patch.object(LocalEmbedder, "counts_english", False),
    ):
        yield


def run(sections: Sections, language: str, questions: Sequence[Mapping[str, str]], **changes: bool) -> list[str]:
    """Fill a store with these sections; return the scores of each list of questions."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "files"
        folder.mkdir()
        for anchor, (_, text) in sections.items():
            (folder / f"{number_of(anchor)}.md").write_text(text)
        server = embedded.start(Path(name) / "redis", embedded.free_port(0))
        try:
            where = {"redis_url": SecretStr(server.url), "persistent_storage_path": Path(name), "log_level": "ERROR"}
            return asyncio.run(measure(Settings(**where, **changes), folder, questions))
        finally:
            server.stop()


def number_of(anchor: str) -> str:
    """A file name that says nothing."""
    return str(int(hashlib.sha256(anchor.encode()).hexdigest()[:12], 16))


async def measure(settings: Settings, folder: Path, questions: Sequence[Mapping[str, str]]) -> list[str]:
    async with open_context(settings) as context:
        cost = await fill(context, folder)
        async with open_searcher(settings, context.client, context.keys) as searcher:
            lines = []
            for some in questions:
                scores = [await score(searcher, some, weight) for weight in (1.0, 0.0, LEXICAL_WEIGHT)]
                lines.append("words {:.3f}, meaning {:.3f}, both {:.3f}".format(*scores) + f" ({cost})")
            return lines


async def fill(context: Context, folder: Path) -> str:
    for config in parse_quick(str(folder), str(folder)).sources():
        await context.sources.add(read_permission.sign_source(context.settings, config), "", 0.0)
        await crawl_source(context, config.sid, CrawlMode.INCREMENTAL)
    waiting, began = await context.client.zrange(context.keys.embed_due, 0, -1), time.process_time()
    counts = await embed_items(context.settings, list(waiting), time.monotonic() + 3_600)
    return f"{counts['embedded']} vectors in {time.process_time() - began:.0f} CPU-s"


async def score(searcher: Searcher, questions: Mapping[str, str], lexical_weight: float) -> float:
    total = 0.0
    for question, anchor in questions.items():
        found = await searcher.search(Query(question, lexical_weight=lexical_weight), time.time())
        names = [Path(one.page.url).stem for one in found.results[:DEPTH]]
        total += 1 / (1 + names.index(number_of(anchor))) if number_of(anchor) in names else 0.0
    return total / len(questions)


if __name__ == "__main__":
    main()
