"""Vectors in Redis that are none: they are skipped, named and made anew, and everything else is found."""

from __future__ import annotations

import logging
import math
import struct
import time
from collections.abc import AsyncIterator

import pytest

from core.doctor.invariants import Finding, Problem
from core.search.protocols import is_unit_vector
from core.settings import Settings
from tests.search_site import Library, open_library
from tests.test_index_repair import index_repair, look

NUMBERS = 16
ONE = 1 / math.sqrt(NUMBERS)


def packed(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}f", *numbers)


DAMAGE = {
    "nan": packed(math.nan, *[ONE] * (NUMBERS - 1)),
    "infinite": packed(*[ONE] * (NUMBERS - 1), math.inf),
    "huge": packed(*[1e30] * NUMBERS),
    "zero": packed(*[0.0] * NUMBERS),
    "short": packed(*[ONE] * (NUMBERS - 1)),
    "long": packed(*[ONE] * (NUMBERS + 1)),
    "odd": b"\x01\x02\x03",
    "words": b"not a vector, just as long as one would be: 64 bytes of words...."[:64],
}


@pytest.fixture
async def library(settings: Settings) -> AsyncIterator[Library]:
    async with open_library(settings, {"/a": "About weirs.", "/b": "About locks."}) as opened:
        await opened.embed()
        yield opened


async def chunk_of(library: Library, path: str) -> str:
    [name] = await library.context.client.zrange(library.context.keys.chunks(library.id(path)), 0, -1)
    return str(name)


async def vector_of(library: Library, path: str) -> bytes:
    key = library.context.keys.vector(await chunk_of(library, path))
    value = await library.context.client.execute_command("GET", key, NEVER_DECODE=True)
    return bytes(value)


async def damage(library: Library, path: str, value: bytes) -> None:
    """In the chunk's vector, and in the cache of vectors beside it."""
    client, keys, name = library.context.client, library.context.keys, await chunk_of(library, path)
    text_hash, space = await client.hmget(keys.chunk(name), ["text_hash", "space"])
    await client.set(keys.vector(name), value)
    await client.set(keys.embed_cache(str(space), str(text_hash)), value)


@pytest.mark.parametrize("how", DAMAGE)
async def test_damaged_vector_does_not_stop_search(
    library: Library, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    """Every page is found, the damaged one by its words and named in the log; it alone waits to be embedded again, and
    one call of the model makes it whole."""
    sound = await vector_of(library, "/a")
    await damage(library, "/a", DAMAGE[how])
    with caplog.at_level(logging.WARNING):
        found = await library.ask("weirs locks")

    assert {one.page.url for one in found.results} >= {library.site.url(path) for path in ("/a", "/b")}
    assert (found.by, found.pending) == ("words and meaning", 1)
    assert [line for line in caplog.messages if library.site.url("/a") in line]
    assert await library.waiting() == [library.id("/a")]

    asked = len(library.server.texts)
    assert (await library.embed())["embedded"] == 1
    assert len([text for text in library.server.texts[asked:] if "weirs" in text]) == 1
    assert await vector_of(library, "/a") == sound
    assert (await library.ask("weirs")).pending == 0
    assert await library.index_errors() == []


@pytest.mark.parametrize("how", DAMAGE)
async def test_damaged_vector_in_the_cache_is_not_used(library: Library, how: str) -> None:
    """A text that comes back is embedded anew where the cache holds nonsense."""
    sound = await vector_of(library, "/a")
    await damage(library, "/a", DAMAGE[how])
    library.site.page("/a", "Something else for a while.")
    await library.crawl()
    await library.embed()
    library.site.page("/a", "About weirs.")
    await library.crawl()
    await library.embed()

    assert await vector_of(library, "/a") == sound


@pytest.mark.parametrize("how", DAMAGE)
async def test_doctor_sees_a_damaged_vector(library: Library, how: str) -> None:
    """And makes its page due, so that the next embed job makes it whole."""
    sound = await vector_of(library, "/a")
    await damage(library, "/a", DAMAGE[how])
    found = await look(library, wants_vectors=True)

    assert found == [Finding(Problem.NOT_EMBEDDED, library.id("/a"))]
    await index_repair(library).repair(found, time.time())
    await library.embed()
    assert await vector_of(library, "/a") == sound


async def test_vector_of_another_type_is_made_anew(library: Library) -> None:
    """A list in the place of a vector is put aside, and search goes on."""
    key = library.context.keys.vector(await chunk_of(library, "/a"))
    await library.context.client.delete(key)
    await library.context.client.rpush(key, "x")

    assert set(await library.urls("weirs locks")) >= {"/a", "/b"}
    await library.embed()
    assert is_unit_vector(await vector_of(library, "/a"), NUMBERS)


@pytest.mark.parametrize("is_mistyped", [False, True], ids=["gone", "of another type"])
@pytest.mark.parametrize("what", ["chunk", "list"])
async def test_pages_that_lost_chunks_are_found_by_their_text(library: Library, what: str, is_mistyped: bool) -> None:
    """A chunk that is gone from Redis, or that somebody made as another type, is cut out of the text again, and the
    page waits to be embedded."""
    client, keys, name = library.context.client, library.context.keys, await chunk_of(library, "/a")
    key = keys.chunk(name) if what == "chunk" else keys.chunks(library.id("/a"))
    await client.delete(key)
    if is_mistyped:
        await client.set(key, "x")

    found = await library.ask("weirs", lexical_weight=1.0)

    assert [one.page.url for one in found.results] == [library.site.url("/a")]
    assert await library.waiting() == [library.id("/a")]
    await library.embed()
    assert await library.index_errors() == []
    assert is_unit_vector(await vector_of(library, "/a"), NUMBERS)


@pytest.mark.parametrize("how", DAMAGE)
def test_what_is_a_vector(how: str) -> None:
    """Finite numbers, as many as the space has dimensions, of length 1."""
    assert not is_unit_vector(DAMAGE[how], NUMBERS)
    assert is_unit_vector(packed(*[ONE] * NUMBERS), NUMBERS)
