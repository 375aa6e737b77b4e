"""No room for the search replica: search answers from what it has, or from a replica in memory, and says so."""

from __future__ import annotations

import errno
import logging
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from unittest import mock

import pytest

from core.search.io import replica_opener, replica_writer
from core.search.io.replica_state import Checkpoint, ReplicaFull, ReplicaUnusable
from core.search.io.replica_writer import ReplicaWriter
from core.settings import Settings
from tests import commands
from tests.search_site import Library, open_library

pytestmark = pytest.mark.long

LIMITED = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
sys.argv = sys.argv[2:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


@pytest.fixture
async def library(settings: Settings) -> AsyncIterator[Library]:
    async with open_library(settings, {"/weir": "The weir was repaired.", "/lock": "The lock is closed."}) as opened:
        yield opened


def full(folder: Path, number: int = errno.ENOSPC) -> mock._patch[object]:
    """Every commit into this folder fails, as on a disk without room."""
    real = ReplicaWriter.commit

    def commit(self: ReplicaWriter, checkpoint: Checkpoint) -> None:
        if self._folder == folder:
            raise OSError(number, "No space left on device")
        real(self, checkpoint)

    return mock.patch.object(ReplicaWriter, "commit", commit)


def folder_of(library: Library) -> Path:
    return replica_opener.replica_folder(library.settings)


async def test_without_a_replica_all_is_read_from_redis(library: Library, caplog: pytest.LogCaptureFixture) -> None:
    """A replica that was never whole is of no use: a temporary one is built, logged in a sentence, and removed."""
    with full(folder_of(library)), caplog.at_level(logging.WARNING):
        found = await library.ask("weir repaired")

    assert found.results[0].page.url == library.site.url("/weir")
    [line] = caplog.messages
    assert "cannot be written: No space left on device" in line
    assert "reads all texts from Redis" in line
    assert not list(replica_opener.SHARED_MEMORY.glob("freshet-*"))


async def test_replica_that_was_whole_answers(library: Library, caplog: pytest.LogCaptureFixture) -> None:
    """With what it has: what is gone since is not shown, and what is new comes when there is room."""
    assert await library.urls("weir repaired", lexical_weight=1.0) == ["/weir"]
    library.site.page("/gauge", "The gauge was repaired.")
    library.site.page("/", links=["/weir", "/lock", "/gauge"])
    library.site.remove("/weir", 410)
    await library.crawl()
    with full(folder_of(library)), caplog.at_level(logging.WARNING):
        found = await library.urls("weir lock repaired", lexical_weight=1.0)

    assert found == ["/lock"]
    assert "What it has is searched" in caplog.text
    assert set(await library.urls("weir lock repaired", lexical_weight=1.0)) == {"/lock", "/gauge"}


async def test_replica_that_cannot_be_made(library: Library) -> None:
    """The disk is full before there is a first file."""

    def fail(folder: Path, *dimensions: int | None) -> None:
        if folder == folder_of(library):
            raise OSError(errno.EDQUOT, "Disk quota exceeded")
        real(folder, *dimensions)

    real = replica_writer.create
    with mock.patch.object(replica_writer, "create", fail):
        assert await library.urls("weir repaired", lexical_weight=1.0) == ["/weir"]


async def test_no_room_anywhere_is_a_sentence(library: Library) -> None:
    """Also none in memory: that is told, with what to do."""
    error = OSError(errno.ENOSPC, "No space left on device")
    with (
        mock.patch.object(ReplicaWriter, "commit", side_effect=error),
        pytest.raises(ReplicaFull, match="Make room there"),
    ):
        await library.ask("weir")


async def test_other_trouble_of_the_disk_is_told_as_it_is(library: Library) -> None:
    """A folder that may not be written is a wrong setting: no temporary replica hides it."""
    with full(folder_of(library), errno.EACCES), pytest.raises(ReplicaUnusable, match="cannot be used"):
        await library.ask("weir")


@pytest.mark.parametrize("most_bytes", [0, 100, 500, 1_000])
async def test_files_that_cannot_grow(library: Library, most_bytes: int) -> None:
    """Wherever writing stops, in our files or in tantivy's: with a whole replica an answer, without one a sentence and
    exit code 2; never a traceback."""
    words = [sys.executable, "-B", "-c", LIMITED, str(most_bytes), "scripts.search", "weir repaired", "--words"]
    environment = commands.environment(library.settings) | {"EMBEDDER": "none"}

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, env=environment, cwd=commands.ROOT, capture_output=True, text=True, check=False)

    before = run()
    await library.ask("weir")
    library.site.page("/lock", "The lock is open again.")
    await library.crawl()
    after = run()

    assert (before.returncode, "Traceback" in before.stderr) == (2, False), before.stderr
    assert "cannot be written" in before.stderr
    assert (after.returncode, "Traceback" in after.stderr) == (0, False), after.stderr
    assert library.site.url("/weir") in after.stdout
