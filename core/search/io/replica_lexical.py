"""The words and texts of a replica: a tantivy index with BM25.

Queries are built from terms, never parsed, so that no input can be wrong. Texts are stored once, in `body`. A page's
first chunk also has the terms of the whole page, and its words as they are written, for the spelling.
"""

from __future__ import annotations

import errno
import json
import math
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path

import msgspec
import tantivy
from tantivy import Document, FieldType, Occur, Query, Searcher

from core.models import Chunk
from core.search.io import replica_stemming
from core.search.io.replica_state import ReplicaBroken
from core.search.io.replica_stemming import QueryTerms
from core.search.models import ChunkText, Filters, IndexedPage

HEAP_BYTES = 64_000_000
"""For terms that wait for a commit; tantivy writes a segment when it is full."""
HEADS_WEIGHT = 0.3
"""Weight of title and headings on their own, beside being part of the words. nDCG@10 on Cranfield: 0 .528, 0.2 .540,
0.3 .543, 0.4 .539, 1 .525, 2 .503. Picked on the same 225 queries: picked on one half, the other half gives .539."""
FULL_MATCH = 2.2
"""What a word gives at most, times its rarity: BM25 with tantivy's k1 of 1.2."""
_SEGMENT_FILES = ("store", "idx", "pos", "term", "fast", "fieldnorm")
_FOOTER_MAGIC = 1337  # tantivy, src/directory/footer.rs


# What is stored of a chunk: its id, and the fields of a ChunkText.
_body_decoder = msgspec.json.Decoder(tuple[str, str, tuple[str, ...], int, tuple[str, ...]])


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    # `whitespace`: terms come ready-made from replica_stemming.
    builder.add_text_field("words", tokenizer_name="whitespace", index_option="position")
    builder.add_text_field("heads", tokenizer_name="whitespace", index_option="freq")
    builder.add_text_field("page_words", tokenizer_name="whitespace", index_option="freq")
    builder.add_text_field("spelling", tokenizer_name="whitespace", index_option="basic")
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
        language = page.detected_language or page.language
        in_terms = lru_cache(maxsize=1000)(lambda text: replica_stemming.terms(text, language))
        heads = [list(map(in_terms, dict.fromkeys((page.title, *chunk.headings)))) for chunk in chunks]
        texts = [replica_stemming.terms(chunk.text, language) for chunk in chunks]
        for place, chunk in enumerate(chunks):
            document = Document()
            for head in heads[place]:
                document.add_text("heads", head)
                document.add_text("words", head)
            document.add_text("words", texts[place])
            if not place:
                _add_page_words(document, [*dict.fromkeys(head for own in heads for head in own), *texts])
                document.add_text("spelling", _spellings(page, chunks))
            document.add_text("page", key)
            for facet in facets:
                document.add_text("facet", facet)
            document.add_unsigned("number", first + place)
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
        """Return number and score of the best chunks that have any of these words."""
        weights = {"words": 1.0, "heads": HEADS_WEIGHT}
        return self._find(searcher, [self._any_word(terms, weights)] if terms.words else [], filters, depth)

    def find_pages(
        self, searcher: Searcher, terms: QueryTerms, filters: Filters, depth: int
    ) -> list[tuple[int, float]]:
        """Return the number of its first chunk, and the score, of the best pages that have any of these words."""
        return self._find(searcher, [self._any_word(terms, {"page_words": 1.0})] if terms.words else [], filters, depth)

    def find_phrases(
        self, searcher: Searcher, terms: QueryTerms, filters: Filters, depth: int
    ) -> list[tuple[int, float]]:
        """Return number and score of the best chunks that have each of the quoted phrases."""
        return self._find(searcher, [self._phrase(variants) for variants in terms.phrases], filters, depth)

    def most_score(self, searcher: Searcher, terms: QueryTerms) -> tuple[float, float]:
        """Return about what a chunk, and what a page, would score with all of these words, and with one very rare."""
        count = max(1, searcher.num_docs)
        rarest = FULL_MATCH * rarity(0, count)
        full = sum(
            FULL_MATCH * rarity(max(searcher.doc_freq(field, term) for term in variants), count)
            for variants in terms.words
            for field in ("words", "page_words")
        )
        return full / 2, rarest

    def has_word(self, searcher: Searcher, variants: Sequence[str]) -> bool:
        """Return whether any text has one of these terms."""
        return any(searcher.doc_freq("words", term) for term in variants)

    def spelling_count(self, searcher: Searcher, word: str) -> int:
        """Return how many pages have a word as it is written."""
        return searcher.doc_freq("spelling", word)

    def spelling_numbers(self, searcher: Searcher, word: str, most: int) -> list[int]:
        """Return the numbers of the first chunks of pages that have a word as it is written, `most` of them."""
        return [number for number, _ in self._find(searcher, [self._any_value("spelling", [word])], Filters(), most)]

    def _find(
        self, searcher: Searcher, parts: Sequence[Query], filters: Filters, depth: int
    ) -> list[tuple[int, float]]:
        """Return number and score of what matches all of these parts and the filters; nothing for no parts."""
        if not parts:
            return []
        parts = [*parts, *self._limits(filters)]
        query = parts[0] if len(parts) == 1 else Query.boolean_query([(Occur.Must, part) for part in parts])
        hits = searcher.search(query, depth, count=False).hits
        numbers = searcher.fast_field_values("number", [address for _, address in hits])
        return [(int(number or 0), float(score)) for number, (score, _) in zip(numbers, hits, strict=True)]

    def texts(self, searcher: Searcher, numbers: Sequence[int]) -> dict[int, tuple[str, ChunkText]]:
        """Return id and text of the chunks with these numbers, without those that were removed."""
        if not numbers:
            return {}
        query = self._any_value("number", numbers)
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

    def _any_word(self, terms: QueryTerms, weights: Mapping[str, float]) -> Query:
        """Any of the words in these fields; a word that languages stem in several ways counts once."""
        words = []
        for field, weight in weights.items():
            for variants in terms.words:
                forms = [self._term(field, term) for term in variants]
                word = forms[0] if len(forms) == 1 else Query.disjunction_max_query(forms)
                words.append(word if weight == 1.0 else Query.boost_query(word, weight))
        return _any_of(words)

    def _phrase(self, variants: Sequence[Sequence[str]]) -> Query:
        """A phrase in one of its variants; tantivy refuses a phrase of one word."""
        return _any_of(
            [
                Query.phrase_query(self._schema, "words", list(phrase))
                if len(phrase) > 1
                else self._term("words", phrase[0])
                for phrase in variants
            ]
        )

    def _term(self, field: str, term: str) -> Query:
        return Query.term_query(self._schema, field, term, index_option="freq")

    def _any_value(self, field: str, values: Sequence[str] | Sequence[int]) -> Query:
        """One of these values, whatever the score. A set of terms is an automaton: 13 numbers 245 µs beside 29, a
        language that all pages have, beside three words, 2.3 ms beside 0.9."""
        return _any_of([Query.term_query(self._schema, field, value, index_option="basic") for value in values])

    def _limits(self, filters: Filters) -> list[Query]:
        """All of the filters; they do not change the score."""
        limits = [self._any_value("facet", choices) for choices in filters.facet_choices]
        if filters.has_dates:
            since = max(filters.since_ts or 0.0, 5e-324)  # a page without a date has 0 and matches no range
            until = float("inf") if filters.until_ts is None else filters.until_ts
            limits.append(Query.range_query(self._schema, "date", FieldType.Float, since, until))
        return [Query.const_score_query(limit, 0.0) for limit in limits]


def rarity(count: int, documents: int) -> float:
    """Return the weight of a term that so many documents have (BM25's idf, as tantivy computes it)."""
    return math.log(1 + (documents - count + 0.5) / (count + 0.5))


def _add_page_words(document: Document, parts: Sequence[str]) -> None:
    for part in parts:
        document.add_text("page_words", part)


def _spellings(page: IndexedPage, chunks: Sequence[Chunk]) -> str:
    """Return the words of a page as they are written, each once."""
    words: set[str] = set()
    for text in (page.title, *(part for chunk in chunks for part in (*chunk.headings, chunk.text))):
        words.update(replica_stemming.spellings(text))
    return " ".join(words)


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
    """Return whether a file fits its checksum.

    Format: body, JSON footer with the CRC, length of the footer, magic number.
    """
    try:
        raw = memoryview(path.read_bytes())
        length, magic = struct.unpack("<II", raw[-8:])
        crc = json.loads(bytes(raw[-8 - length : -8]))["crc"]
    except (OSError, ValueError, KeyError, struct.error):
        return False
    return bool(magic == _FOOTER_MAGIC and crc == zlib.crc32(raw[: -8 - length]))
