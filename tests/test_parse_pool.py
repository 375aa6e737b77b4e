"""The parse pool against tasks that burn, leak, crash, hang and lie. Real child processes, no mocks."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import psutil
import pytest

from core.errors import FailCode, FailDetail, ParserUnavailable
from core.models import Failed, FeedLinks
from core.runtime import parse_pool
from core.runtime.parse_child_handle import ParseChildHandle
from core.runtime.parse_fork_server_handle import ForkServerHandle
from core.runtime.parse_pool import ParsePool
from core.runtime.parse_protocol import PID
from core.runtime.parse_tasks import LOADED_WHEN_NEEDED, TASKS, FeedRequest, PageResult
from tests import parse_tasks
from tests.parse_tasks import Echoed, Text

ROOT = Path(__file__).resolve().parents[1]
REGISTRY = "tests.parse_tasks:TASKS"
DEADLINE_SECONDS = 60


def make_pool(processes=1, cpu_seconds=0.2, memory_bytes=250_000_000, **options) -> ParsePool:
    return ParsePool(processes, cpu_seconds, memory_bytes, registry=REGISTRY, **options)


async def echo(pool: ParsePool, text: str = "still here") -> Echoed:
    answer = await pool.run("echo", Text(text))
    assert isinstance(answer, Echoed)
    assert answer.text == text
    return answer


def is_gone(pid: int) -> bool:
    """Dead, or dead and not yet collected."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def until(condition) -> None:
    """Wait for what must happen; the deadline only turns a hang into a failure."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.005)


async def test_lazy_start():
    """No child exists before the first task, one after it, and it is used again."""
    async with make_pool(processes=2) as pool:
        assert pool.pids == ()
        first = await echo(pool)
        assert pool.pids == (first.pid,)
        assert (await echo(pool)).pid == first.pid != os.getpid()


async def test_no_child_outlives_the_pool():
    """Leaving the context leaves no process behind."""
    async with make_pool(processes=2) as pool:
        await asyncio.gather(echo(pool), echo(pool))
        pids = pool.pids
        assert len(pids) == 2
    assert all(is_gone(pid) for pid in pids)
    with pytest.raises(ParserUnavailable):
        await pool.run("echo", Text())


@pytest.mark.parametrize(
    ("task", "detail", "text"),
    [
        ("burn_cpu", FailDetail.CPU, "more CPU time"),
        ("eat_memory", FailDetail.MEMORY, "more than 250 MB"),
        ("exit_now", FailDetail.CRASH, "exit status 7"),
        ("kill_self", FailDetail.CRASH, "SIGKILL"),
        ("segfault", FailDetail.CRASH, "SIGSEGV"),
        ("recurse", FailDetail.CRASH, "RecursionError at parse_tasks.py"),
        ("refuse", FailDetail.TYPE, "the sentence"),
        ("stumble", FailDetail.CRASH, "ValueError at parse_tasks.py"),
        ("answer_wrong_type", FailDetail.CRASH, "not a result"),
        ("hang_up", FailDetail.CRASH, "hung up"),
    ],
)
async def test_trouble_is_told_and_costs_one_task(task, detail, text):
    """Whatever a task does to its child becomes a `Failed` that says so, and the next task is unharmed."""
    async with make_pool() as pool:
        failed = await pool.run(task, Text("the sentence"))
        assert isinstance(failed, Failed)
        assert (failed.code, failed.detail) == (FailCode.PARSE, detail)
        assert text in failed.text
        await echo(pool)


async def test_a_body_never_reaches_the_failure():
    """An exception's message may quote the input, so only its class and place are told."""
    async with make_pool() as pool:
        failed = await pool.run("stumble", Text("secret body"))
    assert "secret" not in failed.text


async def test_cpu_limit_is_per_task():
    """A child that has used CPU before gets its full allowance again."""
    # All three need more than one may, and each needs so much less that no clock of a busy machine can matter.
    async with make_pool(cpu_seconds=1.0) as pool:
        pids = {(await pool.run("work", Text("0.4"))).pid for _ in range(3)}
        assert len(pids) == 1


async def test_hang_is_ended_by_the_clock(tmp_path):
    """A task that sleeps uses no CPU; the wall limit ends it."""
    async with make_pool(wall_seconds=3.0) as pool:
        await echo(pool)
        failed = await pool.run("wait_for_ever", Text(str(tmp_path / "pid")))
        assert failed.detail is FailDetail.CPU
        assert "longer than 3 s" in failed.text
        pid = int((tmp_path / "pid").read_text())
        await until(lambda: is_gone(pid))
        await echo(pool)


@pytest.mark.parametrize("deaths", [1, 2])
async def test_killed_while_working(tmp_path, deaths):
    """A child killed in the middle of a task costs nothing: the task is done by another."""
    async with make_pool() as pool:
        answer = await pool.run("die_first", Text(f"{tmp_path / 'tries'}|{deaths}"))
        assert isinstance(answer, Echoed)
        assert (tmp_path / "tries").stat().st_size == deaths + 1
        await echo(pool)


async def test_a_body_over_which_three_died_is_given_up(tmp_path):
    """It is tried no fourth time, and the next task is unharmed."""
    async with make_pool() as pool:
        failed = await pool.run("die_first", Text(f"{tmp_path / 'tries'}|3"))
        assert failed.detail is FailDetail.CRASH
        assert "again and again" in failed.text
        assert (tmp_path / "tries").stat().st_size == 3
        await echo(pool)


async def test_killed_from_outside(tmp_path):
    """SIGKILL by somebody else: the same task runs again in a fresh child."""
    pid_file = tmp_path / "pid"
    async with make_pool() as pool:
        call = asyncio.create_task(pool.run("wait_for_ever", Text(str(pid_file))))
        await until(pid_file.exists)
        pid = int(pid_file.read_text())
        os.kill(pid, signal.SIGKILL)
        await until(lambda: int(pid_file.read_text()) != pid)
        assert not call.done()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)


@pytest.mark.parametrize("task", ["burn_cpu", "eat_memory", "exit_now", "stumble"])
async def test_what_a_body_did_itself_is_not_tried_again(task, monkeypatch):
    """Our own limits and a parser's own end are a verdict on the body."""
    started = count_starts(monkeypatch)
    async with make_pool() as pool:
        assert isinstance(await pool.run(task, Text()), Failed)
    assert len(started) == 1


def kill_starts(monkeypatch, kills: int) -> list[ForkServerHandle]:
    """Kill so many fork servers from outside before they have forked a child; those that were started."""
    started = []

    def start(options):
        server = ForkServerHandle(options)
        started.append(server)
        if len(started) <= kills:
            os.kill(server.pid, signal.SIGKILL)
        return server

    monkeypatch.setattr(parse_pool, "ForkServerHandle", start)
    monkeypatch.setattr(parse_pool, "START_PAUSE_SECONDS", 0.0)
    return started


async def test_killed_while_starting_again_and_again(monkeypatch):
    """Nine fork servers that are killed while they start end nothing: the tenth serves the task."""
    started = kill_starts(monkeypatch, 9)
    async with make_pool() as pool:
        await echo(pool)
    assert len(started) == 10


async def test_no_start_survives(monkeypatch):
    """After ten starts that were killed it is given up, in a sentence that names the signal; no body is blamed."""
    started = kill_starts(monkeypatch, 99)
    async with make_pool() as pool:
        with pytest.raises(ParserUnavailable, match=r"killed 10 times.* at last by SIGKILL"):
            await pool.run("echo", Text("x"))
    assert len(started) == 10


async def test_killed_before_it_is_ready(monkeypatch):
    """A child that is killed before it has said a word is replaced; the task does not notice."""
    started = []

    def start(server, task):
        child = ParseChildHandle(server, task)
        started.append(child)
        if len(started) == 1:
            monkeypatch.setattr(child, "_receive", partial(kill_when_ready, child, child._receive))
        return child

    async def kill_when_ready(child, receive):
        os.kill(PID.unpack(await receive())[0], signal.SIGKILL)
        raise EOFError

    monkeypatch.setattr(parse_pool, "ParseChildHandle", start)
    async with make_pool() as pool:
        await echo(pool)
    assert len(started) == 2


async def test_the_fork_server_is_killed(tmp_path):
    """With the server its children die, in the middle of a task: another server is started, and the task is done."""
    pid_file = tmp_path / "pid"
    async with make_pool() as pool:
        call = asyncio.create_task(pool.run("wait_for_ever", Text(str(pid_file))))
        await until(pid_file.exists)
        pid = int(pid_file.read_text())
        psutil.Process(pid).parent().kill()
        await until(lambda: int(pid_file.read_text()) != pid)
        assert is_gone(pid)
        assert not call.done()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)


async def test_children_have_nothing_of_each_other():
    """Children are siblings, each in a session of its own with its own socket, and see neither those of others nor the
    server's."""
    async with make_pool(processes=3) as pool:
        await asyncio.gather(*(echo(pool) for _ in range(3)))
        children = [psutil.Process(pid) for pid in pool.pids]
        assert len(children) == 3
        (server,) = {child.ppid() for child in children}
        assert psutil.Process(server).ppid() == os.getpid()
        assert [os.getsid(child.pid) for child in children] == [child.pid for child in children]
        files = [name for child in children for name in files_of(child.pid)]
        sockets = [name for name in files if name.startswith("socket:")]
        assert len(sockets) == len(set(sockets)) == 3
        assert set(files) - set(sockets) <= {"/dev/null"} | {f"/proc/{child.pid}/statm" for child in children}


def files_of(pid: int) -> list[str]:
    """What a process has open, as Linux names it."""
    return [str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()]


async def test_what_few_pages_need_is_loaded_once(monkeypatch):
    """The server loads it when the first child wants it, still with one thread; then every new child has it."""
    started = count_starts(monkeypatch)
    async with make_pool(memory_bytes=1_000_000_000) as pool:
        for name in LOADED_WHEN_NEEDED:
            assert (await pool.run("need_module", Text(name))).text == name
        pid = (await echo(pool)).pid
        assert len(started) == 1 + len(LOADED_WHEN_NEEDED)
        assert psutil.Process(pid).parent().num_threads() == 1
        os.kill(pid, signal.SIGKILL)
        await until(lambda: is_gone(pid))
        for name in LOADED_WHEN_NEEDED:
            await pool.run("need_module", Text(name))
        assert len(started) == 2 + len(LOADED_WHEN_NEEDED)


async def test_a_page_that_needs_several_modules_is_read_beside_idle_children():
    """Children that were forked before the modules were loaded are not asked again and again until it is given up."""
    async with make_pool(processes=3, memory_bytes=1_000_000_000) as pool:
        await asyncio.gather(*(echo(pool) for _ in range(3)))
        assert len(pool.pids) == 3
        assert isinstance(await pool.run("need_modules", Text(" ".join(LOADED_WHEN_NEEDED))), Echoed)


@pytest.mark.parametrize(("name", "tries"), [(LOADED_WHEN_NEEDED[0], 3), ("os", 1)])
async def test_a_child_cannot_have_modules_loaded_for_ever(monkeypatch, name, tries):
    """A body that always claims to need more is given up, and nothing is loaded that is not on the list."""
    started = count_starts(monkeypatch)
    async with make_pool(memory_bytes=1_000_000_000) as pool:
        failed = await pool.run("need_again", Text(name))
        assert failed.detail is FailDetail.CRASH
        assert len(started) == tries
        await echo(pool)


def count_starts(monkeypatch) -> list[int]:
    started = []
    monkeypatch.setattr(parse_pool, "ParseChildHandle", lambda *asked: started.append(1) or ParseChildHandle(*asked))
    return started


@pytest.mark.parametrize("name", [name for name, task in TASKS.items() if task.sample])
def test_samples_are_read(name):
    """What the fork server reads beforehand is read to its end, and with it everything that reading takes is loaded."""
    result = TASKS[name].run(TASKS[name].sample)
    if isinstance(result, PageResult):
        assert result.document.title == "Bridge closed"
        assert result.document.published_ts
        assert "tolls" in result.document.markdown
    else:
        assert isinstance(result, FeedLinks)
        assert result.title == "News"
        assert len(result.links) == 1


async def test_killed_while_idle():
    """A child that died between tasks costs no task at all."""
    async with make_pool() as pool:
        pid = (await echo(pool)).pid
        os.kill(pid, signal.SIGKILL)
        await until(lambda: is_gone(pid))
        assert (await echo(pool)).pid != pid


async def test_printing_is_harmless(capfd):
    """What a parser prints reaches neither the conversation nor our terminal."""
    async with make_pool() as pool:
        assert (await pool.run("shout", Text("fine"))).text == "fine"
        await echo(pool)
    assert "the body" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "bytes_written",
    [
        "\xff\xff\xff\xff",  # a length of 4 GB
        "\x00\x00\x00\x03abc",  # a frame, but no reply
        "\x00\x00\x00\x04\x94\x00\xc2\xa0",  # a reply cut short
        "\x00\x00\x00\x05\x94\x00\xc2\xa0\xc0",  # a reply whose result has the wrong type
        "\x00\x00\x00\x06\x94\x00\xc2\xa0\xa1\xff",  # a string that is no UTF-8
        "\x00\x00\x27\x14\x94\x00\xc2\xa0" + "\x91" * 10_000,  # nested without end
    ],
)
async def test_garbage_is_refused(bytes_written):
    """A child that answers nonsense is replaced; nothing it wrote is taken for a result, now or later."""
    async with make_pool() as pool:
        failed = await pool.run("answer_garbage", Text(bytes_written))
        assert isinstance(failed, Failed)
        assert failed.detail is FailDetail.CRASH
        await echo(pool)


async def test_two_at_once():
    """Two processes work at the same time, a third task waits for its turn."""
    async with make_pool(processes=2) as pool:
        stuck = asyncio.create_task(pool.run("wait_for_ever", Text()))
        pids = {(await echo(pool, str(n))).pid for n in range(5)}
        assert len(pids) == 1
        assert not stuck.done()
        await until(lambda: len(pool.pids) == 2)
        stuck.cancel()
        await asyncio.gather(stuck, return_exceptions=True)


async def test_many_wait_their_turn():
    """More tasks than processes: each gets its own answer, and no more children than allowed exist."""
    async with make_pool(processes=2) as pool:
        answers = await asyncio.gather(*(echo(pool, str(n)) for n in range(50)))
        assert len({answer.pid for answer in answers}) <= 2
        assert len(pool.pids) <= 2


async def test_cancelled_call_leaves_no_answer_behind(tmp_path):
    """Cancelling kills the child, so that no later task reads the answer of an earlier one."""
    pid_file = tmp_path / "pid"
    async with make_pool() as pool:
        call = asyncio.create_task(pool.run("wait_for_ever", Text(str(pid_file))))
        await until(pid_file.exists)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await echo(pool)).pid != int(pid_file.read_text())
        await until(lambda: is_gone(int(pid_file.read_text())))


async def test_cancelled_while_starting():
    """Cancelling before the child is ready leaves a working pool."""
    async with make_pool() as pool:
        call = asyncio.create_task(pool.run("echo", Text()))
        await until(lambda: pool._busy)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await echo(pool)


async def test_closing_ends_running_calls(tmp_path):
    """A call that is running when the pool closes raises; its body is not blamed."""
    pool = make_pool()
    call = asyncio.create_task(pool.run("wait_for_ever", Text(str(tmp_path / "pid"))))
    await until((tmp_path / "pid").exists)
    await pool.close()
    with pytest.raises(ParserUnavailable):
        await call


async def test_children_retire():
    """A child is replaced after its number of tasks, and when it keeps too much memory; no task notices."""
    async with make_pool(max_tasks=2) as pool:
        pids = [(await echo(pool)).pid for _ in range(4)]
        assert pids[0] == pids[1] != pids[2] == pids[3]
    async with make_pool() as pool:
        leaky = await pool.run("keep_memory", Text("kept"))
        assert leaky.text == "kept"
        assert (await echo(pool)).pid != leaky.pid


async def test_large_bodies_pass():
    """Requests and results of several megabytes arrive whole."""
    async with make_pool() as pool:
        assert len((await echo(pool, "ä" * 4_000_000)).text) == 4_000_000


async def test_child_sees_nothing_of_ours(monkeypatch):
    """The environment of a child holds no secret of its parent."""
    monkeypatch.setenv("API_TOKEN", "canary")
    async with make_pool() as pool:
        pid = (await echo(pool)).pid
        assert psutil.Process(pid).environ() == {"LC_ALL": "C.UTF-8"}


async def test_no_start_is_our_fault(monkeypatch, capfd):
    """When no child can be started the body is not blamed: the call raises, and stderr says why."""
    monkeypatch.setattr(parse_tasks, "ONLY_HERE", parse_tasks.TASKS, raising=False)
    async with ParsePool(1, 1, 250_000_000, registry="tests.parse_tasks:ONLY_HERE") as pool:
        with pytest.raises(ParserUnavailable):
            await pool.run("echo", Text())
    assert "has no attribute 'ONLY_HERE'" in capfd.readouterr().err


async def test_no_interpreter_is_our_fault(monkeypatch):
    """The same when the system refuses to start a process."""
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    async with make_pool() as pool:
        with pytest.raises(ParserUnavailable, match="No such file"):
            await pool.run("echo", Text())


async def test_the_feed_task():
    """The product's own task: a feed's body becomes clean links, and what is no feed is told apart from a crash."""
    body = b"""<rss version="2.0"><channel><title>T</title><link>https://site.example/</link><item><title>A</title>
        <link>https://site.example/a?utm_source=x&amp;id=1</link></item></channel></rss>"""
    async with ParsePool(1, 5, 1_000_000_000) as pool:
        url = "https://site.example/feed"
        feed = await pool.run("feed", FeedRequest(body, url, "application/rss+xml", ("utm_",)))
        assert isinstance(feed, FeedLinks)
        assert (feed.title, feed.links) == ("T", ("https://site.example/a?id=1",))
        failed = await pool.run("feed", FeedRequest(b"<html><p>Not here.</p></html>", url, "text/html"))
        assert failed.detail is FailDetail.TYPE


PARENT = f"""
import asyncio, sys
from core.runtime import parse_pool
from core.runtime.parse_pool import ParsePool
from core.runtime.parse_child_handle import ParseChildHandle
from core.runtime.parse_tasks import FeedRequest
from tests.parse_tasks import Text

async def main():
    async with ParsePool(1, 5, 250_000_000, registry={REGISTRY!r}) as pool:
        await pool.run("wait_for_ever", Text(sys.argv[1]))

asyncio.run(main())
"""


def start_parent(pid_file: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", PARENT, str(pid_file)], cwd=ROOT)


async def test_parent_death_kills_the_child(tmp_path):
    """`kill -9` of the parent ends its child too, even in the middle of a task."""
    pid_file = tmp_path / "pid"
    with start_parent(pid_file) as parent:
        await until(pid_file.exists)
        child = int(pid_file.read_text())
        assert not is_gone(child)
        parent.kill()
    await until(lambda: is_gone(child))
