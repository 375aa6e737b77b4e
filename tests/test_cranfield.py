"""How good search is, on 225 judged queries over 1,400 abstracts (../shared/data/retrieval)."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

pytest.importorskip("tantivy")

from core.models import Chunk
from core.search.io.replica import Replica
from core.search.io.replica_state import Checkpoint
from core.search.models import Filters, IndexedPage, IndexQuery
from core.search.protocols import Vector

DATA = Path(__file__).parents[2] / "shared" / "data" / "retrieval" / "cranfield"
pytestmark = pytest.mark.skipif(not DATA.exists(), reason=f"no judged queries in {DATA}")
Ask = Callable[[str], list[str]]


def lines(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


def judgements() -> dict[str, dict[str, int]]:
    gains: dict[str, dict[str, int]] = {}
    for row in (DATA / "qrels.tsv").read_text().splitlines()[1:]:
        query, document, gain = row.split("\t")
        gains.setdefault(query, {})[document] = int(gain)
    return gains


def discounted(gains: list[int]) -> float:
    return sum((2**gain - 1) / math.log2(rank + 2) for rank, gain in enumerate(gains[:10]))


def ndcg(ask: Ask) -> float:
    """nDCG@10 over all queries, gains 2^g - 1."""
    judged, queries = judgements(), lines("queries.jsonl")
    scores = []
    for query in queries:
        gains = judged[query["_id"]]
        found = [gains.get(document, 0) for document in ask(query["text"])]
        scores.append(discounted(found) / discounted(sorted(gains.values(), reverse=True)))
    return sum(scores) / len(scores)


async def filled(folder: Path, dimension: int | None, vectors: Mapping[str, Vector]) -> Replica:
    """Each abstract as a page of one chunk."""
    replica = Replica(folder, dimension)
    assert replica.try_write_lock()
    for document in lines("corpus.jsonl"):
        name = document["_id"]
        page = IndexedPage(name, "v", title=document["title"], language="en")
        await replica.upsert(page, [Chunk(name, document["text"])], {name: vectors[name]} if name in vectors else {})
    await replica.commit(Checkpoint("1"))
    return replica


async def test_words_alone_find_what_bm25_finds(tmp_path: Path) -> None:
    """BM25 with stems and a little more for titles reaches .54 nDCG@10."""
    snapshot = (await filled(tmp_path, None, {})).snapshot()
    assert snapshot

    score = ndcg(lambda text: [hit.item_id for hit in snapshot.search(IndexQuery(text, None, Filters(), 10))])

    assert score >= 0.54


async def test_words_and_meaning_find_more(tmp_path: Path, full: bool) -> None:
    """With the vectors of the local model the weighted fusion reaches .57 nDCG@10."""
    if not full:
        pytest.skip("embedding 1,400 abstracts takes minutes: --full")
    local = pytest.importorskip("core.search.io.local_embedder")
    embedder = local.LocalEmbedder("bench")
    await embedder.prepare()
    documents, queries = lines("corpus.jsonl"), lines("queries.jsonl")
    texts = [f"{document['title']}\n{document['text']}" for document in documents]
    vectors = dict(zip([d["_id"] for d in documents], await embedder.embed(texts), strict=True))
    asked = dict(zip([q["text"] for q in queries], await embedder.embed([q["text"] for q in queries]), strict=True))
    await embedder.close()
    snapshot = (await filled(tmp_path, embedder.space.dimension, vectors)).snapshot()
    assert snapshot

    score = await asyncio.to_thread(
        ndcg, lambda text: [hit.item_id for hit in snapshot.search(IndexQuery(text, asked[text], Filters(), 10))]
    )

    assert score >= 0.57
