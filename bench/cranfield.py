"""How good is search? Cranfield through the whole product: a folder of files, crawled, embedded and asked.

Needs the judged set beside the checkout; says so where it is absent.

    python -m bench.cranfield
"""

from __future__ import annotations

import asyncio
import json
import math
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from unittest import mock

from bench.harness import ROOT
from core.runtime.context import Context, open_context
from core.search.io.searcher import Searcher, open_searcher
from core.search.models import Query
from core.search.ranking import LEXICAL_WEIGHT, FusedHit, weighted
from core.secret_text import SecretStr
from core.settings import Settings
from core.sources.io import read_permission
from core.sources.io.crawl import CrawlMode, crawl_source
from core.sources.io.domain_file import parse_quick
from core.store import embedded
from workers.embed_jobs import embed_items

CORPUS = ROOT.parent / "shared" / "data" / "retrieval" / "cranfield"
DEPTH = 10
RANK_OFFSET = 60
"""How much the first ranks are pulled together."""
Ranked = list[tuple[int, float]]


def read(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (CORPUS / name).read_text().splitlines()]


def judgements() -> dict[str, dict[str, int]]:
    judged: dict[str, dict[str, int]] = defaultdict(dict)
    for line in (CORPUS / "qrels.tsv").read_text().splitlines():
        query, document, gain = line.split("\t")
        if gain.isdigit():
            judged[query][document] = int(gain)
    return judged


def ndcg(ranked: list[str], gains: dict[str, int]) -> float:
    """At ten, gains 2^g - 1."""
    got = sum((2 ** gains.get(name, 0) - 1) / math.log2(place + 2) for place, name in enumerate(ranked[:DEPTH]))
    best = sorted(gains.values(), reverse=True)[:DEPTH]
    return got / sum((2**gain - 1) / math.log2(place + 2) for place, gain in enumerate(best))


async def fill(context: Context, folder: Path) -> None:
    """All documents as Markdown files, read and embedded."""
    for document in read("corpus.jsonl"):
        (folder / f"{document['_id']}.md").write_text(f"# {document['title']}\n\n{document['text']}\n")
    for config in parse_quick(str(folder), str(folder)).sources():
        await context.sources.add(read_permission.sign_source(context.settings, config), "", 0.0)
        await crawl_source(context, config.sid, CrawlMode.INCREMENTAL)
    began = time.process_time()
    waiting = await context.client.zrange(context.keys.embed_due, 0, -1)
    counts = await embed_items(context.settings, list(waiting), time.monotonic() + 3_600)
    print(f"{dict(counts)}, {time.process_time() - began:.0f} CPU-s")


async def score(searcher: Searcher, lexical_weight: float) -> float:
    judged, total = judgements(), 0.0
    for query in read("queries.jsonl"):
        found = await searcher.search(Query(query["text"], lexical_weight=lexical_weight), time.time())
        total += ndcg([Path(one.page.url).stem for one in found.results], judged[query["_id"]])
    return total / len(judged)


def by_rank(words: Ranked, meaning: Ranked, weight: float, *_: object) -> list[FusedHit[int]]:
    """Reciprocal rank fusion (Cormack, Clarke and Büttcher 2009), in place of ours: scores do not count, only ranks."""
    ranked = [[(key, 1 / (RANK_OFFSET + rank)) for rank, (key, _) in enumerate(side, 1)] for side in (words, meaning)]
    return weighted(ranked[0], ranked[1], weight)


async def measure(settings: Settings, folder: Path) -> None:
    async with open_context(settings) as context:
        await fill(context, folder)
        async with open_searcher(settings, context.client, context.keys) as searcher:
            for name, weight in (("words alone", 1.0), ("meaning alone", 0.0), ("words and meaning", LEXICAL_WEIGHT)):
                print(f"{name:28} nDCG@10 {await score(searcher, weight):.4f}")
            with mock.patch("core.search.ranking.weighted", by_rank):
                print(f"{'both, by rank (RRF)':28} nDCG@10 {await score(searcher, 0.5):.4f}")


def main() -> None:
    if not CORPUS.is_dir():
        print(f"There is no judged set in {CORPUS}.")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "files"
        folder.mkdir()
        server = embedded.start(Path(name) / "redis", embedded.free_port(0))
        try:
            where = {"redis_url": SecretStr(server.url), "persistent_storage_path": Path(name), "log_level": "WARNING"}
            asyncio.run(measure(Settings(**where), folder))
        finally:
            server.stop()


if __name__ == "__main__":
    main()
