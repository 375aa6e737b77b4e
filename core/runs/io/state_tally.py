"""Build the commands by which a commit raises counters in the state of knowledge bases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from core.ids import domain_of_source
from core.keys import Keys
from core.store.commands import Command


class KbTally:
    """Builds commands for a commit. Every method takes the sources that list an item, or one knowledge base."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def visited(self, kb_id: str, counts: Mapping[str, int]) -> list[Command]:
        """Commands that count visits, given as a run counts them."""
        pages = {"crawl.pages_crawled": counts.get("visited", 0), "crawl.pages_failed": counts.get("failed", 0)}
        return self._raised([kb_id], pages)

    def stored(self, sources: Iterable[str], characters: int, *, is_new: bool) -> list[Command]:
        """Commands that count a text that is stored; `is_new`: the document had none."""
        saved = {"processing.documents_saved": 1, "metrics.total_chars_ingested": characters}
        return self._raised(kb_ids_of(sources), {"crawl.last_doc_id": int(is_new), **saved})

    def indexed(self, sources: Iterable[str], more_chunks: int, *, is_new: bool) -> list[Command]:
        """Commands that count a document whose chunks search has now; `is_new`: it had none of it."""
        ids = {"processing.last_chunked_id": int(is_new), "processing.last_indexed_id": int(is_new)}
        return self._raised(kb_ids_of(sources), {**ids, "processing.chunks_total": more_chunks})

    def removed(self, sources: Iterable[str], chunks: int) -> list[Command]:
        """Commands that count the chunks of a document that search has no longer."""
        return self._raised(kb_ids_of(sources), {"processing.chunks_total": -chunks})

    def batch(self, kb_ids: Iterable[str]) -> list[Command]:
        """Commands that count a group of documents that were embedded together."""
        return self._raised(kb_ids, {"processing.batches_processed": 1})

    def _raised(self, kb_ids: Iterable[str], counts: Mapping[str, int]) -> list[Command]:
        return [
            ("HINCRBY", self._keys.kb_state(kb_id), name, count)
            for kb_id in kb_ids
            for name, count in counts.items()
            if kb_id and count
        ]


def kb_ids_of(sources: Iterable[str]) -> list[str]:
    """Return the knowledge bases that sources belong to, each once."""
    return sorted({domain_of_source(sid) for sid in sources} - {""})
