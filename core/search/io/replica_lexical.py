"""The words of a replica: a tantivy index with BM25 behind a few verbs.

Queries are built from terms, never parsed, so that no input can be wrong. Texts are stored once, in `body`.
"""

from __future__ import annotations

import errno
import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import msgspec
import tantivy
from tantivy import DocAddress, Document, FieldType, Occur, Query, Searcher

from core.models import Chunk
from core.search.facets import page_date, page_facets, required_facets
from core.search.io import replica_terms
from core.search.io.replica_state import ReplicaBroken
from core.search.io.replica_terms import QueryTerms
from core.search.models import Filters, IndexedPage

HEAP_BYTES = 64_000_000
"""For terms that wait for a commit; tantivy writes a segment when it is full."""
HEADS_WEIGHT = 0.3
"""What title and headings count on their own, beside being part of the words. nDCG@10 on Cranfield: 0 .528, 0.2 .540,
0.3 .543, 0.4 .539, 1 .525, 2 .503. Picked on the same 225 queries: picked on one half, the other half gives .539."""
_SEGMENT_FILES = ("store", "idx", "pos", "term", "fast", "fieldnorm")
_FOOTER_MAGIC = 1337  # tantivy, src/directory/footer.rs


class Body(msgspec.Struct, frozen=True, array_like=True):
    """What is stored of a chunk."""

    chunk_id: str
    text: str
    headings: tuple[str, ...] = ()
    level: int = 0
    types: tuple[str, ...] = ()


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    # `whitespace`: terms come ready-made from replica_terms.
    builder.add_text_field("words", tokenizer_name="whitespace", index_option="position")
    builder.add_text_field("heads", tokenizer_name="whitespace", index_option="freq")
    builder.add_text_field("page", tokenizer_name="raw", index_option="basic")
    builder.add_text_field("facet", tokenizer_name="raw", index_option="basic")
    builder.add_unsigned_field("number", indexed=True, fast=True)
    builder.add_float_field("date", fast=True)
    builder.add_bytes_field("body", stored=True)
    return builder.build()


class LexicalIndex:
    """One tantivy index; one writer at a time."""

    def __init__(self, folder: Path) -> None:
        self._schema = _schema()
        self._folder = folder
        self._writer: tantivy.IndexWriter | None = None
        self._sound: set[Path] = set()
        try:
            if not tantivy.Index.exists(str(folder)):
                raise ReplicaBroken(f"The search replica has no words: {folder} is missing or empty.")
            self._index = tantivy.Index(self._schema, path=str(folder))
            self._index.config_reader("manual")
            self.reload()
        except (ValueError, OSError) as error:
            raise ReplicaBroken(f"The search replica's words cannot be opened: {error}") from error

    @staticmethod
    def create(folder: Path) -> None:
        """An empty index."""
        folder.mkdir(parents=True)
        with _writing():
            tantivy.Index(_schema(), path=str(folder))

    # ── writing ──

    def start_writing(self) -> None:
        """Take tantivy's own lock."""
        if self._writer is None:
            with _writing():
                self._writer = self._index.writer(HEAP_BYTES, num_threads=1)
                # tantivy counts on from its last commit. The list of deletions that a crash left of the next one may
                # have the very name that ours will need, and tantivy refuses to write over it.
                self._writer.garbage_collect_files()

    def stop_writing(self, is_waiting: bool = False) -> None:
        """Let go of it; what was not committed is gone. `is_waiting`: all is committed, and merges come to their end.

        Without that a writer that is opened for each small commit would never merge: the number of segments would grow.
        """
        writer, self._writer = self._writer, None
        if writer and is_waiting:
            with _writing():
                writer.wait_merging_threads()
            self._sound = set(_committed_files(self._folder))

    @property
    def _writing(self) -> tantivy.IndexWriter:
        if self._writer is None:
            raise RuntimeError("Nobody called start_writing.")
        return self._writer

    def add(self, page: IndexedPage, chunks: Sequence[Chunk], first: int) -> None:
        """The chunks of a page, numbered from `first`."""
        facets, key = page_facets(page), page_key(page.item_id, page.version)
        in_terms = lru_cache(maxsize=1000)(lambda text: replica_terms.terms(text, page.language))
        for number, chunk in enumerate(chunks, start=first):
            document = Document()
            for head in dict.fromkeys((page.title, *chunk.headings)):
                document.add_text("heads", in_terms(head))
                document.add_text("words", in_terms(head))
            document.add_text("words", replica_terms.terms(chunk.text, page.language))
            document.add_text("page", key)
            for facet in facets:
                document.add_text("facet", facet)
            document.add_unsigned("number", number)
            document.add_float("date", page_date(page))
            document.add_bytes(
                "body", msgspec.json.encode(Body(chunk.id, chunk.text, chunk.headings, chunk.level, chunk.types))
            )
            with _writing():
                self._writing.add_document(document)

    def drop(self, item_id: str, version: str) -> None:
        """Forget a version of a page."""
        with _writing():
            self._writing.delete_documents_by_term("page", page_key(item_id, version))

    def commit(self) -> int:
        """Make everything durable and visible to those who reload; gives the commit's opstamp."""
        with _writing():
            return self._writing.commit()

    def opstamp(self) -> int:
        """Of the last commit on disk; merges leave it as it is."""
        return int(json.loads((self._folder / "meta.json").read_bytes())["opstamp"])

    # ── reading ──

    def reload(self) -> None:
        """See the last commit."""
        self._index.reload()

    def searcher(self) -> Searcher:
        """The index as of the last reload; never changes."""
        return self._index.searcher()

    def find(self, searcher: Searcher, question: QueryTerms, filters: Filters, depth: int) -> list[tuple[int, float]]:
        """Number and score of the best chunks for these words."""
        if not question.terms:
            return []
        hits = searcher.search(self._query(question, filters), depth, count=False).hits
        numbers = searcher.fast_field_values("number", [place for _, place in hits])
        return [(int(number or 0), float(score)) for number, (score, _) in zip(numbers, hits, strict=True)]

    def places(self, searcher: Searcher, numbers: Sequence[int]) -> dict[int, DocAddress]:
        """Where the chunks of these numbers are; those that are gone are left out."""
        if not numbers:
            return {}
        query = Query.term_set_query(self._schema, "number", list(numbers))
        places = [place for _, place in searcher.search(query, len(numbers), count=False).hits]
        return {
            int(n or 0): place for n, place in zip(searcher.fast_field_values("number", places), places, strict=True)
        }

    def body(self, searcher: Searcher, place: DocAddress) -> Body:
        """What is stored of a chunk."""
        return msgspec.json.decode(searcher.doc(place).get_first("body") or b"", type=Body)

    def check(self) -> None:
        """Compare files with the checksums that tantivy wrote into them; not those that we wrote or compared before."""
        files = set(_committed_files(self._folder))
        for path in sorted(files - self._sound):
            if not _is_whole(path):
                raise ReplicaBroken(f"The search replica's words are damaged: {path.name} has the wrong checksum.")
        self._sound = files

    # ── queries ──

    def _query(self, question: QueryTerms, filters: Filters) -> Query:
        parts = [(Occur.Must, self._any_term(question.terms))]
        parts += [(Occur.Must, self._any_phrase(phrase)) for phrase in question.phrases]
        parts += [(Occur.Must, Query.const_score_query(limit, 0.0)) for limit in self._limits(filters)]
        return parts[0][1] if len(parts) == 1 else Query.boolean_query(parts)

    def _any_term(self, terms: Sequence[str]) -> Query:
        words = [Query.term_query(self._schema, "words", term, "freq") for term in terms]
        heads = [Query.term_query(self._schema, "heads", term, "freq") for term in terms]
        weighted = [Query.boost_query(head, HEADS_WEIGHT) for head in heads]
        return Query.boolean_query([(Occur.Should, query) for query in [*words, *weighted]])

    def _any_phrase(self, variants: Sequence[Sequence[str]]) -> Query:
        return Query.boolean_query([(Occur.Should, self._phrase(list(terms))) for terms in variants])

    def _phrase(self, terms: list[str]) -> Query:
        if len(terms) == 1:  # tantivy refuses a phrase of one word
            return Query.term_query(self._schema, "words", terms[0], "freq")
        return Query.phrase_query(self._schema, "words", list(terms))

    def _limits(self, filters: Filters) -> Iterator[Query]:
        for choices in required_facets(filters):
            yield Query.term_set_query(self._schema, "facet", choices)
        if filters.since_ts is not None or filters.until_ts is not None:
            since = max(filters.since_ts or 0.0, 5e-324)  # a page without a date has 0 and matches no range
            until = float("inf") if filters.until_ts is None else filters.until_ts
            yield Query.range_query(self._schema, "date", FieldType.Float, since, until)


@contextmanager
def reading() -> Iterator[None]:
    """Files that were damaged under an open index make tantivy panic, or call its own data wrong: not a fault of who
    asked, since no query is parsed."""
    try:
        yield
    except ValueError as error:
        raise ReplicaBroken(f"The search replica's words cannot be read: {error}") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ReplicaBroken("The search replica's words cannot be read: tantivy gave up on them.") from error


@contextmanager
def _writing() -> Iterator[None]:
    """tantivy says of every trouble with the disk that a value is wrong, or that its thread died: it is the disk's."""
    try:
        yield
    except ValueError as error:
        raise OSError(errno.EIO, str(error)) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise OSError(errno.EIO, "tantivy gave up") from error


def page_key(item_id: str, version: str) -> str:
    """The term that all chunks of a version of a page share."""
    return f"{item_id} {version}"


def _committed_files(folder: Path) -> Iterator[Path]:
    """The files that the last commit speaks of; others may be leftovers of a crash."""
    for segment in json.loads((folder / "meta.json").read_bytes())["segments"]:
        name = segment["segment_id"].replace("-", "")
        yield from (folder / f"{name}.{ending}" for ending in _SEGMENT_FILES)
        if segment["deletes"]:
            yield folder / f"{name}.{segment['deletes']['opstamp']}.del"


def _is_whole(path: Path) -> bool:
    """Body, JSON footer with its CRC, length of the footer, magic number."""
    try:
        raw = memoryview(path.read_bytes())
        length, magic = struct.unpack("<II", raw[-8:])
        crc = json.loads(bytes(raw[-8 - length : -8]))["crc"]
    except (OSError, ValueError, KeyError, struct.error):
        return False
    return bool(magic == _FOOTER_MAGIC and crc == zlib.crc32(raw[: -8 - length]))
