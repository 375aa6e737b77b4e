"""Real processes, as a new user starts them: `up --once`, `up` and Ctrl-C, the scripts beside it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import redis

from core import ids
from core.feeds.io import sample
from core.keys import Keys
from core.store.embedded import EmbeddedServer
from tests import ports

ROOT = Path(__file__).parents[1]
KEYS = Keys()
DAY = 86_400


class Freshet:
    """A checkout with its own data folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.feeds = folder / "feeds.toml"
        self.environment = (
            {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG", "PYTHONPATH"}}
            | {"PERSISTENT_STORAGE_PATH": str(folder), "FEEDS_FILE": str(self.feeds)}
            | ports.for_up(folder)
        )

    def run(self, *command: str, check: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        """A command to its end."""
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=ROOT,
            env=self.environment | more,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def start(self, **more: str) -> Running:
        """`up` in the background, in a terminal group of its own."""
        log = (self.folder / "up.log").open("wb")
        process = subprocess.Popen(
            [sys.executable, "-m", "scripts.launch"],
            cwd=ROOT,
            env=self.environment | more,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        return Running(process, self.folder)

    def client(self) -> redis.Redis:
        return redis.Redis.from_url((self.folder / "redis.url").read_text().strip(), decode_responses=True)


class Running:
    """A running `up`."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.process = process
        self.folder = folder

    @property
    def log(self) -> str:
        return (self.folder / "up.log").read_text()

    def until(self, is_so: Callable[[], bool], seconds: float = 60.0) -> None:
        """Wait until it is so; fail with the log if it never is."""
        deadline = time.monotonic() + seconds
        while not is_so():
            assert self.process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.1)

    def stop(self) -> tuple[int, list[psutil.Process]]:
        """Ctrl-C as a terminal sends it: to the whole group. Exit code, and which of its processes are still there."""
        family = psutil.Process(self.process.pid).children(recursive=True)
        os.killpg(self.process.pid, signal.SIGINT)
        code = self.process.wait(30)
        _, alive = psutil.wait_procs(family, timeout=5)
        return code, alive


@pytest.fixture
def freshet(tmp_path: Path) -> Freshet:
    return Freshet(tmp_path)


class FirstRun:
    """`up --once` on an empty machine, and an `up` after it, to look at what is there."""

    def __init__(self, freshet: Freshet) -> None:
        self.freshet = freshet
        (freshet.folder / sample.ADDRESS.name).unlink()  # on an empty machine `up` looks for a port itself
        self.once = freshet.run("scripts.launch", "--once")
        self.running = freshet.start()
        self.running.until(lambda: "Embedded Redis" in self.running.log)
        self.client = freshet.client()


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FirstRun]:
    """One first run for all tests that only look."""
    run = FirstRun(Freshet(tmp_path_factory.mktemp("first")))
    yield run
    run.client.close()
    run.running.stop()


@pytest.mark.long
def test_first_run_shows_the_sample_in_every_key(first_run: FirstRun) -> None:
    """`up --once` on an empty machine: links and feeds in the log, in the summary, and in Redis with type and TTL."""
    done, client = first_run.once, first_run.client

    categories = client.smembers(KEYS.categories)
    assert categories == {"sample_news", "sample_business", "sample_culture", "sample_sports"}
    for category in categories:
        assert client.type(KEYS.feeds(category)) == "set"
        assert client.ttl(KEYS.feeds(category)) == -1
        assert client.type(KEYS.category_links(category)) == "set"
        assert client.type(KEYS.category_links_seen(category)) == "zset"
        assert 0 < client.ttl(KEYS.category_links(category)) <= 2 * DAY
        assert 0 < client.ttl(KEYS.category_links_seen(category)) <= 2 * DAY
        links = client.smembers(KEYS.category_links(category))
        assert len(links) >= 10
        assert links == set(client.zrange(KEYS.category_links_seen(category), 0, -1))
        assert not [link for link in links if "utm_" in link or "#" in link or not link.startswith("http")]
        for url in client.smembers(KEYS.feeds(category)):
            feed = client.hgetall(KEYS.feed(ids.feed_id(url)))
            assert (feed["status"], feed["url"], feed["categories"]) == ("ok", url, category)
            assert float(feed["next_poll_ts"]) > time.time()
            assert feed["next_poll_reason"]
            assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ 200 ", feed["events"])
            assert client.ttl(KEYS.feed(ids.feed_id(url))) == -1
            assert client.type(KEYS.feed_links(ids.feed_id(url))) == "set"
            assert client.zscore(KEYS.feeds_due, ids.feed_id(url)) > time.time()
    assert client.type(KEYS.feeds_due) == "zset"
    assert client.hgetall(KEYS.version)["schema"] == "1"
    last = {name: float(value) for name, value in client.hgetall(KEYS.ingest_last_run).items()}
    assert last["links_found"] == last["links_new"] + last["links_known"] + last["links_rejected"] > 40
    assert list(client.scan_iter("*lease*")) == []
    assert re.search(r"^\S+ \S+ INFO \[ingest\] ✅ \d+ new links, 0 rejected → http://127", done.stderr, re.M)
    assert len(re.findall(r"^\S+ \S+ INFO \[ingest\] 🏁 ", done.stderr, re.M)) == 1
    assert "./scripts/redis-cli" in done.stderr
    assert "sample_news" in done.stdout


@pytest.mark.long
def test_first_run_fills_articles_a_person_wants_to_read(first_run: FirstRun) -> None:
    """Every article key with type, life and fields; each oddity of the sample ends as it should."""
    client = first_run.client
    uids = client.zrange(KEYS.article_index, 0, -1)
    articles = {uid: client.hgetall(KEYS.article(uid)) for uid in uids}
    totals = Counter({name: int(value) for name, value in client.hgetall(KEYS.canonical_stats).items()})

    assert len(uids) > 38
    assert client.type(KEYS.article_index) == "zset"
    for uid, found in articles.items():
        assert ids.article_uid(found["url"]) == uid == found["uid"]
        assert 0 < client.ttl(KEYS.article(uid)) <= 7 * DAY
        assert found["title"]
        assert len(found["abstract"]) > 40
        assert len(found["clean_text"]) == int(found["text_len"]) > 300
        assert (found["status"], found["language"][:2] in {"en", "de", "fr", "ru"}) == ("success", True)
        assert "cookie" not in found["clean_text"].lower()
        for category in found["categories"].split(","):
            assert client.sismember(KEYS.articles_by_category(category), uid)
            assert 0 < client.ttl(KEYS.articles_by_category(category)) <= 7 * DAY
        item = client.hgetall(KEYS.item(found["item_id"]))
        assert (item["status"], item["articleUid"], item["contentHash"]) == ("Indexed", uid, found["content_hash"])
        assert client.sismember(KEYS.status("Indexed"), item["id"])
        assert client.sismember(KEYS.partition(item["PartitionKey"]), item["id"])
        assert client.zscore(KEYS.refs("rss"), item["id"]) == 0
        assert client.zscore(KEYS.due("rss"), item["id"]) > time.time()
    assert sum(bool(found["duplicate_of"]) for found in articles.values()) == 1  # the syndicated story
    assert [found["text_source"] for found in articles.values()].count("feed") == 1  # behind the consent wall
    attempted = client.smembers(KEYS.attempted)
    assert attempted >= set(uids)
    assert 0 < client.ttl(KEYS.attempted) <= 30 * DAY
    assert set(client.zrange(KEYS.attempted_at, 0, -1)) == attempted
    failures = {member.split(":")[0]: member for member in client.zrange(KEYS.failures, 0, -1)}
    stories = {uid: client.hgetall(KEYS.failure(uid)) for uid in failures}
    assert sorted(story["http_status"] for story in stories.values()) == ["404", "503"]
    assert client.zcard(KEYS.retry) == 1
    events = Counter(fields["type"] for _, fields in client.xrange(KEYS.events))
    assert (events.pop("run.finished"), events.total()) == (2, 2 * len(uids))  # polled, and fetched
    assert totals["found"] == totals["new"] + totals["known"] + totals["rejected"]
    ends = ("stored", "failed", "retry", "alias", "duplicate", "deferred")
    assert totals["new"] == sum(totals[end] for end in ends) > 40


@pytest.mark.long
def test_status_in_json(first_run: FirstRun) -> None:
    """Programs read the same figures."""
    seen = json.loads(first_run.freshet.run("scripts.status", "--json").stdout)

    assert seen["feeds"]["by_status"] == {"ok": 5}
    assert seen["categories"]["sample_news"]["links"] >= 10
    assert seen["redis"]["warnings"] == []


@pytest.mark.long
def test_second_up_on_the_same_folder_is_refused(first_run: FirstRun) -> None:
    """One sentence and exit code 2, not a second server on the same files; `--once` joins the running one."""
    second = first_run.freshet.run("scripts.launch", check=False)
    once = first_run.freshet.run("scripts.launch", "--once")

    assert second.returncode == 2
    assert "already running" in second.stderr
    assert "Embedded Redis" not in once.stderr


@pytest.mark.full
def test_ctrl_c_ends_everything_and_a_restart_needs_no_requests(freshet: Freshet) -> None:
    """Exit code 0, no process left; the next start finds its data and polls no feed again."""
    running = freshet.start(EMBEDDER="none")
    running.until(lambda: "🏁" in running.log)
    code, alive = running.stop()
    again = freshet.run("scripts.launch", "--once", EMBEDDER="none")

    assert (code, alive) == (0, [])
    assert "Traceback" not in running.log
    assert "new links" not in again.stderr
    assert "5 ok" in again.stdout


@pytest.mark.long
def test_own_feeds_replace_the_sample_while_it_runs(freshet: Freshet, server: EmbeddedServer) -> None:
    """SADD of a feed, and within a cycle the sample, its data and its site are gone; not before, also with the queues
    on a server of their own, which has no sample."""
    running = freshet.start(
        INGEST_CYCLE_SECONDS="0.5", EMBEDDER="none", FETCH_ALLOWED_HOSTS="127.0.0.1", QUEUE_REDIS_URL=server.url
    )
    running.until(lambda: "[canon] 🏁" in running.log)  # what is just being fetched is only gone a minute later
    client = freshet.client()
    looked = _connections(client)
    running.until(lambda: _connections(client) >= looked + 3)  # whoever looks again has not closed it the first time
    assert "sample site is closed" not in running.log
    client.sadd(KEYS.feeds("mine"), "http://127.0.0.1:9/feed")
    running.until(lambda: "sample site is closed" in running.log)
    running.until(lambda: not list(client.scan_iter("*sample*")) and not client.exists(KEYS.article_index))
    categories = client.smembers(KEYS.categories)
    client.close()
    code, alive = running.stop()

    assert categories == {"mine"}
    assert not (freshet.folder / "sample.url").exists()
    assert (code, alive) == (0, [])


def _connections(client: redis.Redis) -> int:
    """How many there were; while the workers have nothing to do, each is a look of the sample's watcher."""
    return int(client.info("stats")["total_connections_received"])


@pytest.mark.long
def test_own_feed_file_means_no_sample(freshet: Freshet) -> None:
    """With feeds in feeds.toml the sample never appears."""
    freshet.feeds.write_text('[categories]\n"My News" = ["http://127.0.0.1:9/feed"]\n')
    done = freshet.run("scripts.launch", "--once", EMBEDDER="none", FETCH_ALLOWED_HOSTS="127.0.0.1")

    assert "sample" not in done.stdout + done.stderr
    assert "my_news" in done.stdout


@pytest.mark.full
def test_killed_up_takes_its_workers_along(freshet: Freshet) -> None:
    """kill -9 of `up`: workers and sample end by themselves; the server is ended and replaced by the next start."""
    running = freshet.start(EMBEDDER="none")
    running.until(lambda: "🏁" in running.log)
    family = psutil.Process(running.process.pid).children(recursive=True)
    running.process.kill()
    running.process.wait()
    again = freshet.run("scripts.launch", "--once", EMBEDDER="none")
    _, alive = psutil.wait_procs(family, timeout=15)

    assert "5 ok" in again.stdout
    assert alive == []


def test_scripts_work_from_any_folder(freshet: Freshet, tmp_path: Path) -> None:
    """Relative paths are seen from the checkout, not from where the terminal is."""
    shown = subprocess.run(
        [sys.executable, "-c", "from core.settings import load; print(load().feeds_file)"],
        cwd=tmp_path,
        env={name: value for name, value in freshet.environment.items() if name in {"PATH", "HOME"}},
        capture_output=True,
        text=True,
        check=True,
    )

    assert Path(shown.stdout.strip()) == ROOT / "feeds.toml"


def test_folder_that_cannot_be_made_is_a_sentence(freshet: Freshet) -> None:
    """The variable is named, no traceback."""
    done = freshet.run("scripts.launch", "--once", check=False, PERSISTENT_STORAGE_PATH="/dev/null/x")

    assert done.returncode == 2
    assert "PERSISTENT_STORAGE_PATH" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_redis_url_set_starts_no_server(freshet: Freshet, server: EmbeddedServer) -> None:
    """Somebody else's server is used as it is."""
    url = server.url
    with redis.Redis.from_url(url) as client:
        client.flushall()
    done = freshet.run("scripts.launch", "--once", REDIS_URL=url, KEY_PREFIX="{a}:", EMBEDDER="none")
    with redis.Redis.from_url(url, decode_responses=True) as client:
        found = list(client.scan_iter("*"))
        client.flushall()

    assert "Embedded Redis" not in done.stderr
    assert not (freshet.folder / "redis").exists()
    assert found
    # RQ has a name space of its own; what it knows of us carries the prefix inside.
    assert [key for key in found if not key.startswith(("{a}:", "rq:"))] == []


@pytest.mark.parametrize("command", [("scripts.status",), ("scripts.feeds", "list")])
def test_no_server_is_one_sentence(freshet: Freshet, command: tuple[str, ...]) -> None:
    """A script without a server says so in one line, without a traceback."""
    done = freshet.run(*command, check=False, REDIS_URL="redis://127.0.0.1:1/0")

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "does not answer" in done.stderr


def test_bad_setting_stops_the_start_with_a_sentence(freshet: Freshet) -> None:
    """The variable is named, nothing is started."""
    done = freshet.run("scripts.launch", "--once", check=False, FETCH_CONCURRENCY="lots")

    assert done.returncode == 2
    assert "FETCH_CONCURRENCY" in done.stderr
    assert "Traceback" not in done.stderr
