"""However `./scripts/up` ends, everything that it started ends; what dies under it is started again."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest
import redis

from core.keys import Keys
from tests import ports

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[1]
KEYS = Keys()
UP = shlex.join([sys.executable, "-m", "scripts.launch"])
PATIENCE_SECONDS = 90.0
ROLES = (
    "workers.ingestor",
    "workers.timer",
    "workers refresh",
    "workers.web ",
    "workers.webhooks ",
    "--parent",
    "valkey-server",
)
SAMPLE = "scripts.sample_site"
PARSE_CHILD = "core.runtime.parse_fork_server"
SHELLS = ("bash", "/bin/sh")


class Up:
    """A shell line with `up` in it, in a process group of its own as a terminal makes one."""

    def __init__(
        self, folder: Path, line: str = UP, root: Path = ROOT, output: int | None = None, **environment: str
    ) -> None:
        self.folder = folder
        self._log = folder / "up.log"
        folder.mkdir(exist_ok=True)
        base = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        self._log.touch()
        with self._log.open("ab") as log:
            self.shell = subprocess.Popen(
                ["bash", "-c", line],
                cwd=root,
                env=base
                | ports.for_up(folder)
                | {
                    "PERSISTENT_STORAGE_PATH": str(folder),
                    "FEEDS_FILE": str(folder / "feeds.toml"),
                    "INGEST_CYCLE_SECONDS": "0.5",
                    "TIMER_SECONDS": "0.5",
                    "EMBEDDER": "none",  # its process runs all the same, without five seconds of work for the sample
                }
                | environment,
                stdout=log if output is None else output,
                stderr=log if output is None else output,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def processes(self) -> list[psutil.Process]:
        """Everything that runs for this folder, whoever its parent is now, and the children of all that."""
        found: set[psutil.Process] = set()
        waiting: list[psutil.Process] = []
        # One look at all processes: psutil's `children` takes one for each, and tests ask again and again.
        children: dict[int, list[psutil.Process]] = defaultdict(list)
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                children[process.ppid()].append(process)
                if process.environ().get("PERSISTENT_STORAGE_PATH") == str(self.folder):
                    waiting.append(process)
        while waiting:
            process = waiting.pop()
            if process not in found:
                found.add(process)
                waiting += children[process.pid]
        return [one for one in found if _is_alive(one) and "resource_tracker" not in _words(one)]

    def find(self, *words: str) -> psutil.Process | None:
        """The process with these words in its command line; not a shell that will become it."""
        for process in self.processes():
            line = _words(process)
            if all(word in line for word in words) and not line.startswith(SHELLS):
                return process
        return None

    @property
    def pid(self) -> int:
        launch = self.find("scripts.launch")
        assert launch, self.log
        return launch.pid

    def until(self, is_so: Callable[[], object]) -> None:
        """Wait until it is so; fail with the log if it never is."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            assert time.monotonic() < deadline, "\n".join([self.log, "still running:", *map(_words, self.processes())])
            time.sleep(0.25)  # each look reads all processes of the machine

    def until_running(self) -> None:
        """Wait until every process of the Procfile runs, and the server."""
        self.until(lambda: self._runs(*ROLES))

    def until_busy(self) -> None:
        """Wait until every kind of process runs, with something to parse."""
        self.until(lambda: self._runs(*ROLES, SAMPLE, PARSE_CHILD))

    def _runs(self, *roles: str) -> bool:
        lines = [line for line in map(_words, self.processes()) if not line.startswith(SHELLS)]
        return all(any(role in line for line in lines) for role in roles)

    def assert_everything_ends(self) -> None:
        self.until(lambda: not self.processes())
        assert "Traceback" not in self.log

    def client(self) -> redis.Redis:
        return redis.Redis.from_url((self.folder / "redis.url").read_text().strip(), decode_responses=True)


def _words(process: psutil.Process) -> str:
    try:
        return " ".join((*process.cmdline(), ""))  # every word ends with a space
    except psutil.Error:
        return ""


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


@pytest.fixture
def ups(tmp_path: Path) -> Iterator[Callable[..., Up]]:
    """Starts `up`; whatever a test leaves is killed."""
    started: list[Up] = []

    def start(line: str = UP, root: Path = ROOT, output: int | None = None, **environment: str) -> Up:
        started.append(Up(tmp_path / "data", line, root, output, **environment))
        return started[-1]

    yield start
    for up in started:
        for process in up.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()
        up.shell.wait()


@pytest.fixture
def own_feeds(tmp_path: Path) -> None:
    """A feed of one's own, so that there is no sample to fetch and to parse."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "feeds.toml").write_text('[categories]\nmine = ["http://127.0.0.1:9/feed"]\n')


# ── ways to end ──


def _ctrl_c(up: Up) -> None:
    os.killpg(up.shell.pid, signal.SIGINT)


def _hang_up(up: Up) -> None:
    os.killpg(up.shell.pid, signal.SIGHUP)


def _terminate(up: Up) -> None:
    os.kill(up.pid, signal.SIGTERM)


def _kill(up: Up) -> None:
    os.kill(up.pid, signal.SIGKILL)


def _kill_with_guard(up: Up) -> None:
    """In one moment, so that neither can act on the death of the other."""
    guards = [one for one in up.processes() if "scripts.guard" in _words(one)]
    both = [up.pid, *(one.pid for one in guards)]
    subprocess.run(["kill", "-STOP", *map(str, both)], check=True)
    subprocess.run(["kill", "-KILL", *map(str, both)], check=True)


def _kill_with_keepers(up: Up) -> None:
    """Everything that looks after others."""
    names = ("scripts.launch", "scripts.guard", "keeper.py")
    pids = [one.pid for one in up.processes() if any(name in _words(one) for name in names)]
    subprocess.run(["kill", "-STOP", *map(str, pids)], check=True)
    subprocess.run(["kill", "-KILL", *map(str, pids)], check=True)


def _kill_group(up: Up) -> None:
    os.killpg(up.shell.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("line", "end"),
    [
        (f"EMBEDDER=local {UP} 2>&1 | tee $PERSISTENT_STORAGE_PATH/tee.log", _ctrl_c),
        pytest.param(f"exec {UP}", _ctrl_c, marks=pytest.mark.full),
        pytest.param(f"exec {UP}", _hang_up, marks=pytest.mark.full),  # as the HTTP API's test below ends
        pytest.param(f"exec {UP}", _terminate, marks=pytest.mark.full),
        pytest.param(f"exec {UP}", _kill, marks=pytest.mark.full),
        pytest.param(f"{UP} | cat", _kill_group, marks=pytest.mark.full),
        pytest.param(f"exec {UP}", _kill_with_guard, marks=pytest.mark.full),
        pytest.param(
            f"exec {UP}",
            _kill_with_keepers,
            marks=pytest.mark.skipif(sys.platform != "linux", reason="its kernel tells"),
        ),
    ],
    ids=[
        "ctrl-c and tee",
        "ctrl-c",
        "hang-up",
        "terminate",
        "kill -9",
        "kill -9 of the group",
        "kill -9 with its guard",
        "kill -9 of all watchers",
    ],
)
def test_everything_ends_with_up(ups: Callable[..., Up], line: str, end: Callable[[Up], None]) -> None:
    """Ingestor, timer, worker, embedder, parse children, sample site and server: none is left, and no traceback."""
    up = ups(line)
    up.until_busy()
    end(up)

    up.assert_everything_ends()


@pytest.mark.parametrize(
    "line",
    [
        f"{UP} | head -1",
        pytest.param(f"{UP} 2>&1 | head -1", marks=pytest.mark.full),
        f"{UP} --once | head -1",
    ],
)
def test_everything_ends_when_nobody_reads(ups: Callable[..., Up], line: str) -> None:
    """A closed pipe ends `up` also when it has nothing to print."""
    up = ups(line)
    up.until(lambda: up.shell.poll() is not None)

    up.assert_everything_ends()


def test_everything_ends_beside_a_reader_that_stands_still(ups: Callable[..., Up]) -> None:
    """`up 2>&1 | less`: nobody takes what is printed, and Ctrl-C works all the same."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    up = ups(f"exec {UP}", output=writer)
    up.until_busy()
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 512)
    os.set_blocking(writer, True)  # of the pipe's end that we share
    _ctrl_c(up)

    up.assert_everything_ends()
    os.close(reader)
    os.close(writer)


def test_ctrl_c_ends_a_pass_of_once(ups: Callable[..., Up]) -> None:
    """`--once` in the middle of a stage: the stage ends in good order, exit code 0."""
    up = ups(f"exec {UP} --once")
    up.until(lambda: up.find(PARSE_CHILD))
    _ctrl_c(up)

    up.assert_everything_ends()
    assert up.shell.wait() == 0
    with contextlib.suppress(redis.ConnectionError):
        assert not list(up.client().scan_iter("*lease*"))


@pytest.mark.parametrize("command", ["scripts.launch", "scripts.status", "workers.timer"])
@pytest.mark.parametrize("module", ["tqdm", "core.settings"])
def test_ctrl_c_during_the_imports_is_no_traceback(tmp_path: Path, command: str, module: str) -> None:
    """Somebody who is quick sees nothing, and the shell sees a process that was interrupted."""
    (tmp_path / "sitecustomize.py").write_text(
        "import signal, sys\n"
        "class Interrupt:\n"
        "    @staticmethod\n"
        "    def find_spec(name, *_):\n"
        f"        if name == {module!r}:\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupt)\n"
    )
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}
    words = [sys.executable, "-m", command]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)

    assert (done.stdout, done.stderr) == ("", "")
    assert done.returncode in (-signal.SIGINT, 128 + signal.SIGINT)  # a shell shows both as 130


def test_killed_worker_leaves_no_job_behind(ups: Callable[..., Up]) -> None:
    """`up` ends with a sentence when one of its processes dies, and ends what that one had started."""
    up = ups(f"exec {UP}")
    up.until_busy()
    worker = up.find("workers refresh")
    assert worker
    worker.kill()

    up.until(lambda: "worker ended (signal 9)" in up.log)
    up.assert_everything_ends()
    assert up.shell.wait() == 1


def test_next_up_waits_for_the_guard_of_a_killed_one(ups: Callable[..., Up]) -> None:
    """A killed guard is replaced, and ends everything when `up` is killed. Two servers never have the same files."""
    up = ups(f"exec {UP}")
    up.until_busy()
    first = up.find("scripts.guard")
    assert first
    first.kill()
    up.until(lambda: (found := up.find("scripts.guard")) and found.pid != first.pid)
    with up.client() as client:
        client.set("kept", "yes")
    before = {process.pid for process in up.processes()}
    _kill(up)
    again = ups(f"exec {UP}")
    again.until(lambda: again.find("workers.timer") and not before & {process.pid for process in again.processes()})

    with again.client() as client:
        again.until(client.ping)
        assert client.get("kept") == "yes"
    assert "already running" not in again.log


@pytest.mark.usefixtures("own_feeds")
def test_next_up_waits_for_the_workers_of_one_killed_with_its_guard(ups: Callable[..., Up]) -> None:
    """The old processes end and do not join the new ones; a sentence tells why it takes a moment."""
    up = ups(f"exec {UP}")
    up.until_running()
    before = {process.pid for process in up.processes()}
    timer = up.find("workers.timer")
    assert timer
    stuck = timer.parent()
    assert stuck
    stuck.suspend()  # so that it is still there when the next one begins
    _kill_with_guard(up)
    again = ups(f"exec {UP}")
    again.until(lambda: "waiting until its processes have ended" in again.log)
    stuck.resume()
    again.until_running()

    assert not before & {process.pid for process in again.processes()}
    assert "already running" not in again.log
    _ctrl_c(again)
    again.assert_everything_ends()


# ── the HTTP API ──


@pytest.mark.usefixtures("own_feeds")
def test_http_api_stops_nothing_else(ups: Callable[..., Up]) -> None:
    """A taken port is a sentence and waited for; a killed API is started again; everything else goes on.

    Hanging up ends everything.
    """
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        up = ups(f"exec {UP}", API_BIND=f"127.0.0.1:{port}")
        up.until(lambda: f"cannot listen on 127.0.0.1:{port}: another program has this port" in up.log)
        timer = up.find("workers.timer")
    up.until(lambda: f"HTTP API → http://127.0.0.1:{port}/" in up.log)
    first = up.find("workers.web ")
    assert first
    first.kill()
    up.until(lambda: up.log.count("HTTP API → http") == 2)

    assert timer == up.find("workers.timer")
    _hang_up(up)
    up.assert_everything_ends()


# ── a job under way ──


class Slow(BaseHTTPRequestHandler):
    """A site of one page that takes its time."""

    asked = threading.Event()
    let_go = threading.Event()

    def do_GET(self) -> None:
        if self.path == "/robots.txt":
            self.send_response(404)
            self.end_headers()
            return
        self.asked.set()
        self.let_go.wait(PATIENCE_SECONDS)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.mark.usefixtures("own_feeds")
@pytest.mark.parametrize("end", [_ctrl_c, pytest.param(_kill, marks=pytest.mark.full)], ids=["ctrl-c", "kill -9"])
def test_end_in_the_middle_of_a_job_is_no_traceback(ups: Callable[..., Up], end: Callable[[Up], None]) -> None:
    """The job comes to its end, or goes back to its queue, without a traceback; its process ends too."""
    Slow.asked.clear()
    Slow.let_go.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{site.server_address[1]}/"
        up = ups(f"exec {UP}", FETCH_ALLOWED_HOSTS="127.0.0.1", FETCH_TIMEOUT_SECONDS="60")
        up.until_running()
        environment = os.environ | {"PERSISTENT_STORAGE_PATH": str(up.folder), "FETCH_ALLOWED_HOSTS": "127.0.0.1"}
        subprocess.run(
            [sys.executable, "-m", "scripts.domain", "add", url], cwd=ROOT, env=environment, check=True, timeout=60
        )
        up.until(Slow.asked.is_set)
        end(up)

        up.assert_everything_ends()
        Slow.let_go.set()
        site.shutdown()


# ── the server ──


def test_nohup_and_a_dead_server(ups: Callable[..., Up]) -> None:
    """Who says `nohup` outlives its terminal. A server that dies is started again with the same address and data; the
    workers go on. SIGTERM ends everything."""
    up = ups(f"exec nohup {UP}")
    up.until_busy()
    _hang_up(up)
    with up.client() as client:
        client.set("kept", "yes")
        client.execute_command("WAITAOF", 1, 0, 5000)
    url = (up.folder / "redis.url").read_text()
    server = up.find("valkey-server")
    assert server
    server.kill()
    up.until(lambda: "Embedded Redis is back" in up.log)

    with up.client() as client:
        assert client.get("kept") == "yes"
        client.sadd(KEYS.feeds("mine"), "http://127.0.0.1:9/feed")
        up.until(lambda: client.smembers(KEYS.categories) == {"mine"})  # the ingestor has seen it
    assert (up.folder / "redis.url").read_text() == url
    _terminate(up)
    up.assert_everything_ends()
    places = [up.folder, up.folder / "redis.url", up.folder / "redis", *(up.folder / "redis").rglob("*")]
    assert [path for path in places if path.stat().st_mode & 0o077] == []


# ── settings ──


def test_environment_wins_over_env_file_under_up(ups: Callable[..., Up], tmp_path: Path) -> None:
    """Workers of `up` see the environment's value, not that of `.env`; a misspelt name is told once."""
    checkout = tmp_path / "checkout"
    for name in ("core", "workers", "scripts", "sample_site", "sample_sharepoint"):
        shutil.copytree(ROOT / name, checkout / name)
    (checkout / "Procfile").write_text(
        "timer: exec python -c 'from core.runtime import logs; from core.settings import load; s = load();"
        " logs.configure(s); print(s.log_level, s.timer_seconds, s.fetch_concurrency)'\n"
    )
    (checkout / ".env").write_text("TIMER_SECONDS=77\nFETCH_CONCURRENCY=3\nLOG_LEVELL=DEBUG\n")
    up = ups(f"exec {UP}", checkout, TIMER_SECONDS="5", EMBEDER="none")
    up.until(lambda: up.shell.poll() is not None)

    assert "timer | INFO 5.0 3" in up.log
    assert up.log.count(".env: LOG_LEVELL is not a setting; did you mean LOG_LEVEL?") == 1
    assert up.log.count("EMBEDER is not a setting; did you mean EMBEDDER?") == 1
    up.assert_everything_ends()
