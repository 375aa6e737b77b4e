"""The words and texts of a replica: a tantivy index with BM25.

Queries are built from terms, never parsed, so that no input can be wrong. Texts are stored once, in `body`.
"""

from __future__ import annotations

import errno
import json
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache, partial
from pathlib import Path

import msgspec
import tantivy
from tantivy import Document, FieldType, Occur, Query, Searcher

from core.models import Chunk
from core.search.io import replica_terms
from core.search.io.replica_state import ReplicaBroken
from core.search.io.replica_terms import QueryTerms
from core.search.models import ChunkText, Filters, IndexedPage

HEAP_BYTES = 64_000_000
"""For terms that wait for a commit; tantivy writes a segment when it is full."""
HEADS_WEIGHT = 0.3
"""Weight of title and headings on their own, beside being part of the words. nDCG@10 on Cranfield: 0 .528, 0.2 .540,
0.3 .543, 0.4 .539, 1 .525, 2 .503. Picked on the same 225 queries: picked on one half, the other half gives .539."""
_SEGMENT_FILES = ("store", "idx", "pos", "term", "fast", "fieldnorm")
_FOOTER_MAGIC = 1337  # tantivy, src/directory/footer.rs


# What is stored of a chunk: its id, and the fields of a ChunkText.
_body_decoder = msgspec.json.Decoder(tuple[str, str, tuple[str, ...], int, tuple[str, ...]])


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
    """A tantivy index; one writer at a time."""

    def __init__(self, folder: Path) -> None:
        self._schema = _schema()
        self._folder = folder
        self._writer: tantivy.IndexWriter | None = None
        self._verified: set[Path] = set()
        try:
            if not tantivy.Index.exists(str(folder)):
                raise ReplicaBroken(f"The search replica has no words: {folder} is missing or empty.")
            self._index = tantivy.Index(self._schema, path=str(folder))
            self._index.config_reader("manual")
        except (ValueError, OSError) as error:
            raise _broken(error) from error

    @staticmethod
    def create(folder: Path) -> None:
        """Create an empty index."""
        folder.mkdir(parents=True)
        with _disk_errors():
            tantivy.Index(_schema(), path=str(folder))

    # ── writing ──

    def start_writing(self) -> None:
        """Take tantivy's own lock."""
        with _disk_errors():
            self._writer = self._index.writer(HEAP_BYTES, num_threads=1)
            # tantivy counts on from its last commit. The list of deletions that a crash left of the next one may
            # have the very name that ours will need, and tantivy refuses to overwrite it.
            self._writer.garbage_collect_files()

    def stop_writing(self, *, wait: bool = False) -> None:
        """Release the lock; what was not committed is lost. `wait`: all is committed; let merges finish.

        Without that a writer that is opened for each small commit would never merge: the number of segments would grow.
        """
        writer, self._writer = self._writer, None
        if writer and wait:
            with _disk_errors():
                writer.wait_merging_threads()
            self._verified = set(_committed_files(self._folder))

    def add(self, page: IndexedPage, chunks: Sequence[Chunk], first: int) -> None:
        """Add the chunks of a page, numbered from `first`."""
        facets, key = page.facets, _page_key(page.item_id, page.version)
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
            document.add_float("date", page.date_ts)
            body = (chunk.id, chunk.text, chunk.headings, chunk.level, chunk.types)
            document.add_bytes("body", msgspec.json.encode(body))
            with _disk_errors():
                self._open_writer.add_document(document)

    def drop(self, item_id: str, version: str) -> None:
        """Remove a version of a page."""
        with _disk_errors():
            self._open_writer.delete_documents_by_term("page", _page_key(item_id, version))

    def commit(self) -> int:
        """Make everything durable, and visible to those who reload; return the commit's opstamp."""
        with _disk_errors():
            return self._open_writer.commit()

    @property
    def _open_writer(self) -> tantivy.IndexWriter:
        assert self._writer, "start_writing was not called"
        return self._writer

    def opstamp(self) -> int:
        """Return the opstamp of the last commit on disk; merges do not change it."""
        return int(json.loads((self._folder / "meta.json").read_bytes())["opstamp"])

    # ── reading ──

    def reload(self) -> None:
        """Read the last commit. Raises ReplicaBroken."""
        try:
            self._index.reload()
        except (ValueError, OSError) as error:
            raise _broken(error) from error

    def searcher(self) -> Searcher:
        """Return the index as of the last reload, which never changes."""
        return self._index.searcher()

    def find(self, searcher: Searcher, terms: QueryTerms, filters: Filters, depth: int) -> list[tuple[int, float]]:
        """Return number and score of the best chunks for these terms."""
        if not terms.words:
            return []
        hits = searcher.search(self._query(terms, filters), depth, count=False).hits
        numbers = searcher.fast_field_values("number", [address for _, address in hits])
        return [(int(number or 0), float(score)) for number, (score, _) in zip(numbers, hits, strict=True)]

    def texts(self, searcher: Searcher, numbers: Sequence[int]) -> dict[int, tuple[str, ChunkText]]:
        """Return id and text of the chunks with these numbers, without those that were removed."""
        if not numbers:
            return {}
        query = Query.term_set_query(self._schema, "number", list(numbers))
        addresses = [address for _, address in searcher.search(query, len(numbers), count=False).hits]
        texts = {}
        for number, address in zip(searcher.fast_field_values("number", addresses), addresses, strict=True):
            chunk_id, text, headings, level, types = _body_decoder.decode(
                searcher.doc(address).get_first("body") or b""
            )
            texts[int(number or 0)] = chunk_id, ChunkText(text, headings, level, types)
        return texts

    def verify(self) -> None:
        """Compare files with the checksums that tantivy wrote into them; not those that we wrote or compared before.

        Raises ReplicaBroken.
        """
        files = set(_committed_files(self._folder))
        for path in sorted(files - self._verified):
            if not _is_whole(path):
                raise ReplicaBroken(f"The search replica's words are damaged: {path.name} has the wrong checksum.")
        self._verified = files

    def _query(self, terms: QueryTerms, filters: Filters) -> Query:
        """Any of the words, each of the phrases, all of the filters; a filter does not change the score."""
        term = partial(Query.term_query, self._schema, index_option="freq")
        words = [term("words", word) for word in terms.words]
        words += [Query.boost_query(term("heads", word), HEADS_WEIGHT) for word in terms.words]
        parts = [_any_of(words)]
        for variants in terms.phrases:
            phrases = [
                Query.phrase_query(self._schema, "words", list(phrase)) if len(phrase) > 1 else term("words", phrase[0])
                for phrase in variants  # tantivy refuses a phrase of one word
            ]
            parts.append(_any_of(phrases))
        limits = [Query.term_set_query(self._schema, "facet", choices) for choices in filters.facet_choices]
        if filters.has_dates:
            since = max(filters.since_ts or 0.0, 5e-324)  # a page without a date has 0 and matches no range
            until = float("inf") if filters.until_ts is None else filters.until_ts
            limits.append(Query.range_query(self._schema, "date", FieldType.Float, since, until))
        parts += [Query.const_score_query(limit, 0.0) for limit in limits]
        return parts[0] if len(parts) == 1 else Query.boolean_query([(Occur.Must, part) for part in parts])


def _any_of(queries: Sequence[Query]) -> Query:
    return Query.boolean_query([(Occur.Should, query) for query in queries])


def reading() -> AbstractContextManager[None]:
    """Raise ReplicaBroken for files that were damaged under an open index: no query is parsed, so none is at fault."""
    return _converted(_broken)


def _disk_errors() -> AbstractContextManager[None]:
    """Raise OSError for what tantivy cannot write."""
    return _converted(lambda error: OSError(errno.EIO, str(error)))


@contextmanager
def _converted(convert: Callable[[BaseException], Exception]) -> Iterator[None]:
    """Convert what tantivy raises for all trouble with files: ValueError, or a panic, which is no Exception."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, ValueError) and type(error).__name__ != "PanicException":
            raise
        raise convert(error) from error


def _broken(error: BaseException) -> ReplicaBroken:
    return ReplicaBroken(f"The search replica's words cannot be read: {error}")


def _page_key(item_id: str, version: str) -> str:
    """Return the term that all chunks of a version of a page share."""
    return f"{item_id} {version}"


def _committed_files(folder: Path) -> Iterator[Path]:
    """Yield the files of the last commit; others may be leftovers of a crash."""
    for segment in json.loads((folder / "meta.json").read_bytes())["segments"]:
        name = segment["segment_id"].replace("-", "")
        yield from (folder / f"{name}.{ending}" for ending in _SEGMENT_FILES)
        if segment["deletes"]:
            yield folder / f"{name}.{segment['deletes']['opstamp']}.del"


def _is_whole(path: Path) -> bool:
    """Whether a file fits its checksum. Format: body, JSON footer with the CRC, length of the footer, magic number."""
    try:
        raw = memoryview(path.read_bytes())
        length, magic = struct.unpack("<II", raw[-8:])
        crc = json.loads(bytes(raw[-8 - length : -8]))["crc"]
    except (OSError, ValueError, KeyError, struct.error):
        return False
    return bool(magic == _FOOTER_MAGIC and crc == zlib.crc32(raw[: -8 - length]))
