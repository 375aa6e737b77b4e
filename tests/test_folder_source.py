"""The folder source: what is listed, what is refused, and what a fetch answers. Real folders, no network."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.errors import FailCode, FailDetail
from core.models import Failed, Fetched, ListingBatch, ListingEnd, Ref
from core.net.fetcher import BodySlot
from core.registry.record import Item
from core.sources.io.folder import FolderSource
from core.sources.io.local_files import content_type

OLD = 1_600_000_000
NOBODY = 65_534


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self, now: float = OLD + 1_000) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def write(path: Path, text: str = "text", mtime: float = OLD) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (mtime, mtime))
    return path


def source(root: Path, *include: str, exclude: tuple[str, ...] = (), clock: Clock | None = None) -> FolderSource:
    return FolderSource(root, include, exclude, max_bytes=1_000, clock=clock or Clock())


async def listed(folder: FolderSource) -> tuple[list[Ref], dict[str, str], ListingEnd]:
    seen = [piece async for piece in folder.list({})]
    batches = [piece for piece in seen if isinstance(piece, ListingBatch)]
    assert isinstance(seen[-1], ListingEnd)
    assert len(seen) == len(batches) + 1
    refs = [ref for batch in batches for ref in batch.refs]
    return refs, {one.url: one.reason for batch in batches for one in batch.refused}, seen[-1]


async def paths(folder: FolderSource, root: Path) -> list[str]:
    refs, _, _ = await listed(folder)
    return [Path(ref.address).relative_to(root).as_posix() for ref in refs]


async def fetch(folder: FolderSource, path: Path | str, etag: str = "") -> Fetched | Failed:
    answer = await folder.fetch(Item("file_x", "file", fetch_url=str(path)), {"If-None-Match": etag} if etag else {})
    assert isinstance(answer, Fetched | Failed)
    return answer


async def status(folder: FolderSource, path: Path | str, etag: str = "") -> int:
    answer = await fetch(folder, path, etag)
    assert isinstance(answer, Fetched), answer
    return answer.status


async def detail(folder: FolderSource, path: Path | str) -> FailDetail:
    answer = await fetch(folder, path)
    assert isinstance(answer, Failed), answer
    assert answer.code is FailCode.HTTP
    assert answer.text
    return answer.detail


@contextmanager
def an_ordinary_user() -> Iterator[None]:
    """Root reads everything; as root these tests run as nobody."""
    is_root = os.geteuid() == 0
    try:
        if is_root:
            os.seteuid(NOBODY)
        yield
    finally:
        if is_root:
            os.seteuid(0)


@pytest.fixture
def open_root() -> Iterator[Path]:
    """A folder that everybody may enter; pytest's own is closed to others."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        probe = write(root / "probe.md")
        probe.chmod(0)
        with an_ordinary_user():
            can_read = os.access(probe, os.R_OK, effective_ids=True)
        probe.unlink()
        if can_read:
            pytest.skip("this user reads everything, whatever the permissions say")
        yield root


# ── listing ─────────────────────────────────────────────────────────────────────────────────────


async def test_files_are_listed_in_order(tmp_path: Path) -> None:
    """Files come in order of names, a folder's own before those below, with depth and version."""
    for name in ("b/y.md", "b/x.md", "a.md", "b/c/z.md", "c.md"):
        write(tmp_path / name)

    refs, refused, end = await listed(source(tmp_path))

    assert [ref.address.removeprefix(f"{tmp_path}/") for ref in refs] == [
        "a.md",
        "c.md",
        "b/x.md",
        "b/y.md",
        "b/c/z.md",
    ]
    assert [ref.depth for ref in refs] == [0, 0, 1, 1, 2]
    assert {(ref.type, ref.version) for ref in refs} == {("file", f"{OLD}000000000:4")}
    assert (refused, end) == ({}, ListingEnd(is_complete=True))


async def test_patterns_choose(tmp_path: Path) -> None:
    """Include and exclude decide, and a folder without hope is not entered."""
    for name in ("a.md", "a.png", "drafts/b.md", "docs/c.MD"):
        write(tmp_path / name)

    assert await paths(source(tmp_path, "*.md", exclude=("drafts/",)), tmp_path) == ["a.md", "docs/c.MD"]


async def test_hidden_is_skipped_unless_named(tmp_path: Path) -> None:
    """.git, .venv, node_modules, __pycache__ and hidden files are not read, unless an include spells them."""
    for name in (".git/a.md", ".env.md", "node_modules/b.md", "x/__pycache__/c.md", ".github/d.md", "e.md"):
        write(tmp_path / name)

    assert await paths(source(tmp_path, "*.md"), tmp_path) == ["e.md"]
    assert await paths(source(tmp_path), tmp_path) == ["e.md"]
    assert await paths(source(tmp_path, ".github/**", "*.md"), tmp_path) == ["e.md", ".github/d.md"]


async def test_batches_are_bounded(tmp_path: Path) -> None:
    """No batch holds more than 500, and none is empty."""
    for number in range(1_203):
        (tmp_path / f"{number:04}.md").touch()

    sizes = [len(piece.refs) async for piece in source(tmp_path).list({}) if isinstance(piece, ListingBatch)]

    assert sum(sizes) == 1_203
    assert max(sizes) <= 500
    assert min(sizes) > 0


async def test_the_loop_is_never_blocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the disk happens in another thread."""
    write(tmp_path / "a" / "b.md")
    threads = set()
    for name in ("scandir", "lstat", "open"):
        original = getattr(os, name)

        def watched(*args: object, original=original, **kwargs: object) -> object:  # type: ignore[no-untyped-def]
            if str(tmp_path) in str(args[0]):
                threads.add(threading.current_thread())
            return original(*args, **kwargs)

        monkeypatch.setattr(os, name, watched)
    folder = source(tmp_path)

    await listed(folder)
    await fetch(folder, tmp_path / "a" / "b.md")

    assert threads
    assert threading.main_thread() not in threads


async def test_symlinks_are_refused_with_a_reason(tmp_path: Path) -> None:
    """Links out, loops, links to folders, to files and to nothing: never followed, always named."""
    root = tmp_path / "root"
    write(root / "in.md")
    write(root / "sub" / "deep.md")
    write(tmp_path / "secret.md")
    (root / "out.md").symlink_to(tmp_path / "secret.md")
    (root / "up").symlink_to("..")
    (root / "round").symlink_to(".")
    (root / "loop.md").symlink_to("loop.md")
    (root / "same.md").symlink_to("in.md")
    (root / "branch").symlink_to("sub")
    (root / "nothing.md").symlink_to("missing.md")

    refs, refused, end = await listed(source(root, "*.md"))

    assert [ref.address for ref in refs] == [str(root / "in.md"), str(root / "sub" / "deep.md")]
    assert {Path(link).name: reason for link, reason in refused.items()} == {
        "out.md": "symlink that leaves the folder",
        "up": "symlink that leaves the folder",
        "round": "symlink to a folder",
        "loop.md": "symlink loop, or one without end",
        "same.md": "symlink to a file that is listed itself",
        "branch": "symlink to a folder",
        "nothing.md": "symlink to nothing",
    }
    assert end.is_complete


async def test_a_link_to_a_hidden_file_is_no_way_in(tmp_path: Path) -> None:
    """A symlink to something that is not taken does not make it taken."""
    write(tmp_path / ".secret" / "a.md")
    (tmp_path / "a.md").symlink_to(".secret/a.md")

    assert (await listed(source(tmp_path)))[:2] == ([], {str(tmp_path / "a.md"): "symlink to a file that is not taken"})


async def test_only_regular_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pipes and sockets are refused by the listing and by a fetch, and neither waits for them."""
    os.mkfifo(tmp_path / "pipe.md")
    monkeypatch.chdir(tmp_path)  # a socket's path may have 108 bytes only
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.md")
        refs, refused, end = await listed(source(tmp_path))

        assert (refs, end.is_complete) == ([], True)
        assert sorted(Path(link).name for link in refused) == ["pipe.md", "socket.md"]
        assert await detail(source(tmp_path), tmp_path / "pipe.md") is FailDetail.BLOCKED
        assert await detail(source(tmp_path), tmp_path / "socket.md") is FailDetail.BLOCKED


async def test_names_that_are_no_utf8_are_refused(tmp_path: Path) -> None:
    """A name that Redis could not hold is refused, file or folder, and shown with its bytes written out."""
    (tmp_path / "\udcff.md").touch()
    (tmp_path / "\udcfe").mkdir()
    write(tmp_path / "ünï.md")

    refs, refused, end = await listed(source(tmp_path))

    assert [ref.address for ref in refs] == [str(tmp_path / "ünï.md")]
    assert refused == {
        f"{tmp_path}/\\udcff.md": "its name is not UTF-8",
        f"{tmp_path}/\\udcfe": "its name is not UTF-8",
    }
    assert end.is_complete


async def test_an_unreadable_file_is_refused(open_root: Path) -> None:
    """A file without permission is refused, and a fetch answers 403."""
    write(open_root / "closed.md").chmod(0)
    write(open_root / "open.md").chmod(0o644)

    with an_ordinary_user():
        refs, refused, end = await listed(source(open_root))
        code = await status(source(open_root), open_root / "closed.md")

    assert [ref.address for ref in refs] == [str(open_root / "open.md")]
    assert (refused, end.is_complete) == ({str(open_root / "closed.md"): "unreadable"}, True)
    assert code == 403


async def test_an_unreadable_folder_makes_the_listing_incomplete(open_root: Path) -> None:
    """The rest is listed, absence means nothing, and the reason names the folder."""
    write(open_root / "closed" / "a.md")
    write(open_root / "b.md")
    (open_root / "closed").chmod(0)

    with an_ordinary_user():
        refs, _, end = await listed(source(open_root))
    (open_root / "closed").chmod(0o755)

    assert [ref.address for ref in refs] == [str(open_root / "b.md")]
    assert not end.is_complete
    assert f"{open_root}/closed cannot be read: Permission denied" in end.reason


async def test_a_folder_that_may_be_crossed_but_not_read(open_root: Path) -> None:
    """A known file below a folder without read permission is still fetched."""
    write(open_root / "dark" / "a.md").chmod(0o644)
    (open_root / "dark").chmod(0o711)

    with an_ordinary_user():
        assert await status(source(open_root), open_root / "dark" / "a.md") == 200


async def test_no_root_is_trouble_and_no_loss(tmp_path: Path) -> None:
    """A missing root, or a file in its place, lists nothing and claims nothing."""
    write(tmp_path / "file")
    (tmp_path / "loop").symlink_to("loop")

    for name in ("missing", "file", "loop"):
        refs, _, end = await listed(source(tmp_path / name))
        assert (refs, end.is_complete) == ([], False)
        assert str(tmp_path / name) in end.reason


async def test_an_empty_root_is_complete(tmp_path: Path) -> None:
    """An empty folder is a complete listing; who deletes has a guard of its own."""
    assert await listed(source(tmp_path)) == ([], {}, ListingEnd(is_complete=True))


async def test_a_root_that_is_exchanged_while_listed(tmp_path: Path) -> None:
    """A root that is another folder at the end than at the start does not count as complete."""
    root = tmp_path / "root"
    for number in range(600):
        write(root / f"{number}.md")
    listing = source(root).list({})
    await anext(listing)
    root.rename(tmp_path / "elsewhere")
    root.mkdir()

    *_, end = [piece async for piece in listing]

    assert isinstance(end, ListingEnd)
    assert not end.is_complete


async def test_a_root_that_is_a_symlink_keeps_its_name(tmp_path: Path) -> None:
    """`current -> release-2`: items keep their addresses when the link is turned."""
    write(tmp_path / "release-2" / "a.md")
    (tmp_path / "current").symlink_to("release-2")
    folder = source(tmp_path / "x" / ".." / "current")

    refs, _, _ = await listed(folder)

    assert [ref.address for ref in refs] == [str(tmp_path / "current" / "a.md")]
    assert await status(folder, refs[0].address) == 200


async def test_a_rename_is_one_gone_and_one_new(tmp_path: Path) -> None:
    """A renamed file is listed under its new name with its old version; the old name is a 404."""
    folder = source(tmp_path)
    old = write(tmp_path / "old.md")
    before, _, _ = await listed(folder)
    old.rename(tmp_path / "new.md")
    after, _, _ = await listed(folder)

    assert after[0].address == str(tmp_path / "new.md")
    assert after[0].version == before[0].version
    assert await status(folder, old) == 404


# ── young files ─────────────────────────────────────────────────────────────────────────────────


async def test_a_young_file_has_a_new_version_at_every_listing(tmp_path: Path) -> None:
    """Within two seconds of its mtime, or before it, a file is visited again; then its version rests."""
    write(tmp_path / "a.md", mtime=OLD)
    clock = Clock(OLD - 60.0)
    folder = source(tmp_path, clock=clock)
    versions = []
    for now in (OLD - 60.0, OLD, OLD + 1.9, OLD + 2.1, OLD + 100.0):
        clock.now = now
        refs, _, _ = await listed(folder)
        versions.append(refs[0].version)

    assert len(set(versions[:4])) == 4
    assert versions[3] == versions[4] == f"{OLD}000000000:4"


async def test_an_edit_that_keeps_mtime_and_size_is_seen(tmp_path: Path) -> None:
    """An edit right after a visit, same mtime, same size, is read at the next visit: the hash decides."""
    path = write(tmp_path / "a.md", "one")
    clock = Clock(OLD + 1.0)
    folder = source(tmp_path, clock=clock)
    first = await fetch(folder, path)
    assert isinstance(first, Fetched)
    write(path, "two")
    clock.now = OLD + 500.0
    second = await fetch(folder, path, first.header("etag"))

    assert isinstance(second, Fetched)
    assert (second.status, second.body) == (200, b"two")
    assert second.header("etag") == f'"{OLD}000000000:3"'


async def test_a_young_file_that_did_not_change_is_a_304(tmp_path: Path) -> None:
    """In doubt the content is read, and the same content is still 304."""
    path = write(tmp_path / "a.md")
    clock = Clock(OLD + 1.0)
    folder = source(tmp_path, clock=clock)
    first = await fetch(folder, path)
    assert isinstance(first, Fetched)

    assert await status(folder, path, first.header("etag")) == 304
    clock.now = OLD + 500.0
    later = await fetch(folder, path, first.header("etag"))
    assert isinstance(later, Fetched)
    assert (later.status, later.header("etag")) == (304, f'"{OLD}000000000:4"')


# ── fetching ────────────────────────────────────────────────────────────────────────────────────


async def test_a_file_is_answered_like_a_page(tmp_path: Path) -> None:
    """200 with body and validators; with the validator 304; changed 200 again."""
    path = write(tmp_path / "a.md", "# Title")
    folder = source(tmp_path)
    answer = await fetch(folder, path)

    assert answer == Fetched(
        url=str(path),
        final_url=str(path),
        status=200,
        headers={
            "etag": f'"{OLD}000000000:7"',
            "last-modified": "Sun, 13 Sep 2020 12:26:40 GMT",
            "content-type": "text/markdown",
            "content-length": "7",
        },
        body=b"# Title",
    )
    assert await status(folder, path, answer.header("etag")) == 304
    write(path, "# Other", OLD + 5)
    assert await status(folder, path, answer.header("etag")) == 200


async def test_what_is_not_there_is_404(tmp_path: Path) -> None:
    """A file that went, and one below something that is a file now, are 404."""
    write(tmp_path / "a.md")

    assert await status(source(tmp_path), tmp_path / "gone.md") == 404
    assert await status(source(tmp_path), tmp_path / "a.md" / "b.md") == 404
    assert await status(source(tmp_path), tmp_path / ("x" * 300)) == 404


async def test_a_share_that_is_not_mounted_is_no_404(tmp_path: Path) -> None:
    """Below a root that is missing or empty nothing is gone: it is tried again."""
    assert await detail(source(tmp_path / "missing"), tmp_path / "missing" / "a.md") is FailDetail.REFUSED
    assert await detail(source(tmp_path), tmp_path / "a.md") is FailDetail.REFUSED


async def test_nothing_outside_is_opened(tmp_path: Path) -> None:
    """Traversal, strangers' paths, symlinks out and tricks with names are refused, not read."""
    root = tmp_path / "root"
    write(root / "a.md")
    secret = write(tmp_path / "secret.md", "secret")
    (root / "out.md").symlink_to(secret)
    (root / "up").symlink_to("..")
    (root / "loop").symlink_to("loop")
    folder = source(root)

    for path in (
        *(secret, root / "out.md", root / "up" / "secret.md", f"{root}/../secret.md", root / "loop" / "a.md"),
        *(root, root / "up", f"{root}/..", "secret.md", "", "/", "/dev/zero", "/etc/passwd", f"{root}/a.md\0.txt"),
    ):
        assert await detail(folder, path) is FailDetail.BLOCKED, path
        assert await folder.hash_of(Item("file_x", fetch_url=str(path))) is None
    assert await status(folder, f"{root}/..%2f..%2fescape.txt") == 404


async def test_a_root_beside_with_the_same_beginning(tmp_path: Path) -> None:
    """/data-private is not inside /data."""
    write(tmp_path / "data" / "a.md")
    other = write(tmp_path / "data-private" / "b.md")

    assert await detail(source(tmp_path / "data"), other) is FailDetail.BLOCKED


async def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    """A file above the limit is refused by its size; its hash, in pieces, still tells a change."""
    huge = tmp_path / "huge.csv"
    with huge.open("wb") as file:
        file.truncate(5_000_000)
    folder = source(tmp_path)
    refs, _, _ = await listed(folder)

    assert [ref.address for ref in refs] == [str(huge)]
    assert await detail(folder, huge) is FailDetail.TOO_LARGE
    assert await folder.hash_of(Item("file_x", fetch_url=str(huge))) == hashlib.sha256(bytes(5_000_000)).hexdigest()


async def test_a_file_that_changes_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A torn read is never returned: three tries, then it is tried again later."""
    path = write(tmp_path / "a.md", "one")
    edits = iter([OLD + 1])
    original = os.fstat

    def fstat(descriptor: int) -> os.stat_result:
        found = original(descriptor)
        for mtime in edits:
            write(path, "two", mtime)
            break
        return found

    monkeypatch.setattr(os, "fstat", fstat)
    # The first look is the check for a regular file: the edit falls before the read, so the body is the new one.
    answer = await fetch(source(tmp_path), path)
    assert isinstance(answer, Fetched)
    assert (answer.body, answer.header("etag")) == (b"two", f'"{OLD + 1}000000000:3"')

    edits = iter([OLD + 2, OLD + 3])
    answer = await fetch(source(tmp_path), path)
    assert isinstance(answer, Fetched)
    assert answer.header("etag") == f'"{OLD + 3}000000000:3"'

    edits = iter(range(OLD + 4, OLD + 100))
    assert await detail(source(tmp_path), path) is FailDetail.RESET


async def test_a_body_takes_room(tmp_path: Path) -> None:
    """A fetch waits until there is room for one more body."""
    path = write(tmp_path / "a.md")
    semaphore = asyncio.Semaphore(1)
    item = Item("file_x", "file", fetch_url=str(path))
    with BodySlot(semaphore) as first, BodySlot(semaphore) as second:
        await source(tmp_path).fetch(item, {}, first)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(source(tmp_path).fetch(item, {}, second), 0.05)


async def test_strange_times_are_survived(tmp_path: Path) -> None:
    """Before 1970 and far in the future are times that files have."""
    for mtime in (-5_000_000_000, 16_000_000_000):
        assert await status(source(tmp_path), write(tmp_path / "a.md", mtime=mtime)) == 200


TYPES = [
    *(("a.md", "text/markdown"), ("A.MD", "text/markdown"), ("a.rst", "text/plain"), ("a.adoc", "text/plain")),
    *(("a.txt", "text/plain"), ("a.csv", "text/csv"), ("a.html", "text/html"), ("a.pdf", "application/pdf")),
    *(("a.txt.gz", "application/octet-stream"), ("Makefile", "application/octet-stream")),
]


@pytest.mark.parametrize(("name", "expected"), TYPES)
def test_types_by_ending(name: str, expected: str) -> None:
    """The ending says what a file is, the same on every machine."""
    assert content_type(f"/a/{name}") == expected


def test_what_cannot_be_configured_is_a_sentence(tmp_path: Path) -> None:
    """A bad pattern or root stops at once."""
    with pytest.raises(ValueError, match="the pattern"):
        source(tmp_path, "[a")
    with pytest.raises(ValueError, match="not UTF-8"):
        source(tmp_path / "\udcff")
