"""Fixtures of the fault tests."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

import pytest
from redis.backoff import NoBackoff

from core.settings import Settings
from core.store import embedded
from core.store.embedded import EmbeddedServer
from tests import ports
from tests.faults.proxy import Proxy
from tests.faults.scenario import Newsroom


@pytest.fixture
def in_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """One lane and no dice: the n-th command is the same in every run."""

    def one_lane(items: Iterable[str], _: Callable[[str], str]) -> dict[str, deque[str]]:
        return {"": deque(items)}

    monkeypatch.setattr("core.runtime.domain_concurrency.group", one_lane)
    monkeypatch.setattr("random.random", lambda: 0.5)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """redis-py asks again without a pause."""
    monkeypatch.setattr("core.store.connect.ExponentialBackoff", lambda **_: NoBackoff())


@pytest.fixture
async def own_server(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    """A server that only this test has, to be killed and made to refuse."""
    running = embedded.start(tmp_path / "server", ports.take())
    yield running
    running.stop()


@pytest.fixture
async def newsroom(settings: Settings, in_step: None) -> AsyncIterator[Newsroom]:
    async with Newsroom.open(settings) as room:
        yield room


@pytest.fixture
async def proxy(server: EmbeddedServer) -> AsyncIterator[Proxy]:
    """A door to the session's server."""
    async with Proxy(server.port) as door:
        yield door
