"""Real parts for tests: one embedded server per session, emptied before each test."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import signal
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import fakeredis
import hypothesis
import pytest
import pytest_asyncio

from core.keys import Keys
from core.runtime.context import Context, open_context
from core.runtime.parse_pool import ParsePool
from core.search.io import local_embedder
from core.secret_text import SecretStr
from core.settings import Settings
from core.store import connect, embedded
from tests import commands, ports
from tests.api import ApiServer, api_server
from tests.inline_pool import InlinePool
from tests.openai_store_server import OpenAiStoreServer
from tests.site import Site
from tests.web import FakeWeb

SETTING_NAMES = {name.upper() for name in Settings.names()}
RUNAWAY_CPU_SECONDS = 30.0
FAULTS = Path(__file__).parent / "faults"
FULL = """the long version: crashes, lost replies and kills at every point instead of at some of them; load tests
with their full counts; a hundred examples of each property instead of thirty; every hostile input, corpus page and
member of a long list of like cases instead of a choice; and the tests marked `full`"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help=FULL)


def pytest_configure(config: pytest.Config) -> None:
    """How long an example takes says something about the machine, not about the code: there is no deadline."""
    examples = 100 if config.getoption("--full") else 30
    hypothesis.settings.register_profile("ours", deadline=None, max_examples=examples)
    hypothesis.settings.load_profile("ours")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests marked `full` or `long`, unless they are asked for."""
    for item in items:
        if FAULTS in item.path.parents:
            item.add_marker(pytest.mark.long)
    names = _left_out_markers(config)
    left_out = {item for item in items if any(item.get_closest_marker(name) for name in names)}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def _left_out_markers(config: pytest.Config) -> tuple[str, ...]:
    """Long tests run when they are named: by `-m long`, by their file, or by `--full`."""
    if config.getoption("--full"):
        return ()
    is_whole_suite = config.args == config.getini("testpaths")
    if is_whole_suite and "long" not in config.getoption("markexpr"):
        return ("full", "long")
    return ("full",)


def pytest_collection_finish() -> None:
    """Garbage is not looked for among what stays until the end: eight thousand tests and all modules."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a test logged may be no text; between processes only text can be sent."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.fixture(scope="session")
def full(request: pytest.FixtureRequest) -> bool:
    """Full counts of the long tests?"""
    return bool(request.config.getoption("--full"))


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable and no .env of the developer's reaches a test."""
    for name in SETTING_NAMES & os.environ.keys():
        monkeypatch.delenv(name)
    monkeypatch.setattr(Settings, "env_file", None)


@pytest.fixture(autouse=True)
def inline_parsing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are parsed in this process, unless a test is marked `parse_children`."""
    if not request.node.get_closest_marker("parse_children"):
        monkeypatch.setattr("core.runtime.context.ParsePool", lambda *_: InlinePool())


@pytest.fixture(scope="session", autouse=True)
def one_local_model() -> Iterator[None]:
    """The bytes of the local model become a session once, not for every embedder."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(local_embedder, "_session", functools.cache(local_embedder._session))
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def parse_pool() -> AsyncIterator[ParsePool]:
    """Real parse children, for the tests of a module that have `pytest.mark.asyncio(loop_scope="module")`."""
    # Memory of a fresh child that has loaded every parser and the language model, and 200 MB above it. The limit counts
    # address space, which is a good deal more than memory in use.
    async with ParsePool(processes=2, cpu_seconds=5.0, memory_bytes=1_000_000_000) as pool:
        yield pool


@pytest.fixture
def no_runaway() -> Iterator[None]:
    """Fail a test that needs half a minute of CPU. Linear work needs a second; anything else would need years."""

    def fail(*_: object) -> None:
        raise AssertionError(f"more than {RUNAWAY_CPU_SECONDS:.0f} s of CPU")

    before = signal.signal(signal.SIGPROF, fail)
    signal.setitimer(signal.ITIMER_PROF, RUNAWAY_CPU_SECONDS)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[embedded.EmbeddedServer]:
    """The real embedded server, for the whole session."""
    running = embedded.start(tmp_path_factory.mktemp("server"), ports.take())
    yield running
    running.stop()


@pytest.fixture
def settings(server: embedded.EmbeddedServer, tmp_path: Path) -> Settings:
    """Settings for loopback: no gap, quick timeouts, everything below a temporary folder."""
    folders = {
        "persistent_storage_path": tmp_path,
        "feeds_file": tmp_path / "feeds.toml",
        "folder_roots": (str(tmp_path),),
    }
    return _loopback_settings(server.url).model_copy(update=folders)


@functools.cache
def _loopback_settings(url: str) -> Settings:
    """Read once: most tests need settings, and reading seventy from the environment takes a while."""
    return Settings(redis_url=SecretStr(url), fetch_host_gap_seconds=0, fetch_timeout_seconds=5)


@contextlib.asynccontextmanager
async def empty_store(settings: Settings) -> AsyncIterator[connect.Client]:
    client = connect.open_store(settings)
    await client.flushall()
    yield client
    await client.aclose()


@pytest.fixture
async def redis(settings: Settings) -> AsyncIterator[connect.Client]:
    """A decoded client on the real, empty server."""
    async with empty_store(settings) as client:
        yield client


@pytest.fixture(params=["fake", "real"])
async def any_redis(request: pytest.FixtureRequest, settings: Settings) -> AsyncIterator[connect.Client]:
    """The same test on fakeredis and on the real server."""
    fake = fakeredis.FakeAsyncRedis(decode_responses=True)
    async with empty_store(settings) if request.param == "real" else fake as client:
        yield client


@pytest.fixture
def keys() -> Keys:
    """Keys without a prefix, as people see them."""
    return Keys()


@pytest.fixture
async def web() -> AsyncIterator[FakeWeb]:
    """A web on loopback."""
    async with FakeWeb() as running:
        yield running


@pytest.fixture
def site(redis: connect.Client, web: FakeWeb) -> Site:
    """A site without pages, and an empty store."""
    return Site(web)


@pytest.fixture
async def context(settings: Settings, redis: connect.Client, web: FakeWeb) -> AsyncIterator[Context]:
    """A context on an empty store that may ask loopback."""
    async with open_context(settings.model_copy(update={"fetch_allowed_hosts": ("127.0.0.0/8",)})) as opened:
        yield opened


@pytest.fixture
async def api(settings: Settings, redis: connect.Client) -> AsyncIterator[ApiServer]:
    """The HTTP API on loopback, on an empty store."""
    async with api_server(settings) as running:
        yield running


@pytest.fixture
def adopted(monkeypatch: pytest.MonkeyPatch, settings: Settings, redis: connect.Client) -> None:
    """Scripts called in this process see the test's empty store."""
    commands.adopt(monkeypatch, settings)


@pytest.fixture
def openai_server() -> Iterator[OpenAiStoreServer]:
    """The files and vector stores of OpenAI, on loopback."""
    with OpenAiStoreServer() as server:
        yield server
