"""The embedded server is its owner's alone: modes, password, and nothing of it where others can look."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import redis as sync_redis

from core.errors import StoreUnreachable
from core.settings import Settings
from core.store import connect, embedded, private_files
from tests import ports

ROOT = Path(__file__).parents[1]
# One `up` at a time: its sample site looks for a free port.
pytestmark = [pytest.mark.long, pytest.mark.xdist_group("up")]
PASSWORD = "s3cret-S3CRET_s3cret"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def open_places(folder: Path) -> list[Path]:
    """What others may read, write or enter."""
    return [path for path in (folder, *folder.rglob("*")) if mode(path) & 0o077]


# ── the server ──


def test_server_wants_its_password_and_shows_it_to_nobody(tmp_path: Path) -> None:
    """No answer without it; it is in no command line and in no file of the server, all of which are ours alone."""
    os.umask(0o022)
    server = embedded.start(tmp_path / "redis", ports.take(), PASSWORD)
    try:
        with sync_redis.Redis(port=server.port) as stranger, pytest.raises(sync_redis.AuthenticationError):
            stranger.ping()
        with sync_redis.Redis.from_url(server.url) as client:
            client.set("a", "b")
        lines = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
        texts = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    finally:
        server.stop()

    assert not [line for line in lines if PASSWORD in line]
    assert not [text for text in texts if PASSWORD.encode() in text]
    assert open_places(tmp_path / "redis") == []
    assert PASSWORD not in repr(server)


def test_folder_of_an_earlier_version_is_tightened(tmp_path: Path) -> None:
    """Files and folders that others could read are closed at the next start, with their data."""
    folder = tmp_path / "redis"
    first = embedded.start(folder, ports.take())
    with sync_redis.Redis.from_url(first.url) as client:
        client.set("kept", "yes")
    first.stop()
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    second = embedded.start(folder, ports.take(), PASSWORD)
    with sync_redis.Redis.from_url(second.url, decode_responses=True) as client:
        kept = client.get("kept")
    second.stop()

    assert kept == "yes"
    assert open_places(folder) == []


def test_folder_names_may_hold_anything(tmp_path: Path) -> None:
    """Blanks, quotes and umlauts reach the server as they are."""
    folder = tmp_path / 'a "b" \\x41 ü'
    server = embedded.start(folder, ports.take())
    with sync_redis.Redis.from_url(server.url, decode_responses=True) as client:
        found = client.config_get("dir")["dir"]
    server.stop()

    assert found == str(folder)


def test_broken_off_start_leaves_no_server(tmp_path: Path) -> None:
    """Whoever starts it may change their mind; also before it has read its configuration."""
    seen: list[int] = []

    def give_up(process: embedded.Process) -> None:
        seen.append(process.pid)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embedded.start(tmp_path / "redis", ports.take(), on_wait=give_up)

    assert not psutil.pid_exists(seen[0])


# ── its address ──


def test_address_is_private_and_its_password_stays(tmp_path: Path) -> None:
    """0600 whatever the umask; the next start finds the same password, so that clients need not be told."""
    os.umask(0o022)
    password = connect.embedded_password(tmp_path)
    connect.write_url(tmp_path, f"redis://:{password}@127.0.0.1:7777/0")

    assert mode(tmp_path / "redis.url") == 0o600
    assert connect.embedded_password(tmp_path) == password
    assert len(password) >= 32


@pytest.mark.parametrize("spoil", ["redis://127.0.0.1:7777/0", "open"])
def test_password_that_others_could_know_is_replaced(spoil: str, tmp_path: Path) -> None:
    """An earlier version had none; one in a file that others could read is spent."""
    connect.write_url(tmp_path, f"redis://:{PASSWORD}@127.0.0.1:7777/0" if spoil == "open" else spoil)
    if spoil == "open":
        (tmp_path / "redis.url").chmod(0o644)

    assert connect.embedded_password(tmp_path) not in {PASSWORD, ""}


def test_other_users_folder_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script of another user says whose store this is."""

    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    connect.write_url(tmp_path, "redis://127.0.0.1:7777/0")
    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(StoreUnreachable, match="another user"):
        connect.url_of(Settings(persistent_storage_path=tmp_path))


def test_shared_folder_is_not_taken_from_others(tmp_path: Path) -> None:
    """A folder with a sticky bit, as /tmp has it, keeps its rights; our own gets 0700."""
    shared, own = tmp_path / "shared", tmp_path / "own"
    shared.mkdir()
    shared.chmod(0o1777)
    own.mkdir(mode=0o755)

    assert (private_files.make_folder(shared), mode(shared)) == (False, 0o1777)
    assert (private_files.make_folder(own), mode(own)) == (True, 0o700)


# ── the log of the store ──


def store_with_data(folder: Path) -> Path:
    server = embedded.start(folder, ports.take())
    with sync_redis.Redis.from_url(server.url) as client:
        client.set("kept", "yes")
    server.stop()
    return folder / "appendonlydir" / "appendonly.aof.manifest"


@pytest.mark.parametrize("how", ["missing", "empty"])
def test_missing_manifest_is_refused_and_what_is_advised_works(how: str, tmp_path: Path) -> None:
    """The server would begin anew and overwrite its log; the sentence has a command that brings the data back."""
    manifest = store_with_data(tmp_path / "redis")
    manifest.unlink()
    if how == "empty":
        manifest.touch()
    with pytest.raises(StoreUnreachable) as caught:
        embedded.start(tmp_path / "redis", ports.take())
    command = str(caught.value).partition("write it anew: ")[2].partition("), or move")[0]
    subprocess.run(["bash", "-c", command], check=True, timeout=10)
    again = embedded.start(tmp_path / "redis", ports.take())
    with sync_redis.Redis.from_url(again.url, decode_responses=True) as client:
        kept = client.get("kept")
    again.stop()

    assert kept == "yes"
    assert str(tmp_path / "redis") in str(caught.value)


def test_manifest_of_a_missing_file_is_refused(tmp_path: Path) -> None:
    """The server itself will not start then, and the sentence leads to its log."""
    manifest = store_with_data(tmp_path / "redis")
    next(manifest.parent.glob("*.base.*")).unlink()
    with pytest.raises(StoreUnreachable, match=r"server\.log says why"):
        embedded.start(tmp_path / "redis", ports.take())


@pytest.mark.parametrize("gone", ["redis/appendonlydir/appendonly.aof.manifest", "redis/appendonlydir"])
def test_up_refuses_a_store_that_lost_its_data(gone: str, tmp_path: Path) -> None:
    """One sentence and exit code 2; nothing is written over."""
    manifest = store_with_data(tmp_path / "redis")
    connect.write_url(tmp_path, "redis://127.0.0.1:1/0")
    lost = tmp_path / gone
    lost.rename(tmp_path / "elsewhere")
    before = sorted(path.name for path in manifest.parent.glob("*"))
    done = subprocess.run(
        [sys.executable, "-m", "scripts.launch", "--once"],
        cwd=ROOT,
        env={
            "PATH": os.environ["PATH"],
            "PERSISTENT_STORAGE_PATH": str(tmp_path),
            "EMBEDDED_REDIS_PORT": str(ports.take()),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2
    assert "Cannot start." in done.stderr
    assert f"move {tmp_path / 'redis'} away" in done.stderr
    assert sorted(path.name for path in manifest.parent.glob("*")) == before
