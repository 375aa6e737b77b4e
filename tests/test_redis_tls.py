"""A server that is reached by TLS, as managed ones are: the store and the queues, and a certificate nobody trusts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.secret_text import SecretStr
from core.settings import Settings
from core.store import connect
from core.store.embedded import EmbeddedServer
from tests import commands
from tests.certificates import CertificateFiles, make_certificate
from tests.faults.scenario import rss
from tests.tls_terminator import tls_in_front_of
from tests.web import FakeWeb

pytestmark = pytest.mark.long


@pytest.fixture
def certificate(tmp_path: Path) -> CertificateFiles:
    return make_certificate(tmp_path)


@pytest.fixture
def tls_port(server: EmbeddedServer, certificate: CertificateFiles) -> Iterator[int]:
    with tls_in_front_of(server.port, certificate) as port:
        yield port


async def test_the_whole_product_over_tls(
    settings: Settings, tls_port: int, certificate: CertificateFiles, redis: connect.Client, web: FakeWeb
) -> None:
    """Feed, article, timer, RQ worker and search, with the certificate's authority named in REDIS_URL."""
    web.page("/feed", rss(web.url("/weir")))
    web.page("/weir", f"<article><p>{'The weir was repaired. ' * 20}</p></article>")
    await redis.sadd("rss:feeds:news", web.url("/feed"))
    url = f"rediss://127.0.0.1:{tls_port}/0?ssl_ca_certs={certificate.public}"
    by_tls = settings.model_copy(update={"redis_url": SecretStr(url)})
    for command in (
        ("workers.ingestor", "--once"),
        ("workers.canonical_fetcher",),
        ("scripts.reindex", "--all", "--force"),
        ("workers.timer", "--once"),
        ("workers", "refresh", "reindex", "embed", "--burst"),
        ("scripts.doctor",),
    ):
        done = await commands.run(by_tls, *command)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
    found = await commands.run(by_tls, "scripts.search", "repaired weir", "--json")

    assert json.loads(found.stdout)["results"][0]["url"] == web.url("/weir"), found.stdout
    assert await redis.scard("ingest:status:Indexed") == 1


async def test_a_certificate_that_nobody_trusts_is_a_sentence(settings: Settings, tls_port: int) -> None:
    """Nothing is sent to a server that may be another; the sentence names the setting that says whom to trust."""
    url = SecretStr(f"rediss://:hunter2@127.0.0.1:{tls_port}/0")
    done = await commands.run(settings.model_copy(update={"redis_url": url}), "scripts.status")

    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "certificate" in done.stderr
    assert "ssl_ca_certs" in done.stderr
    assert "hunter2" not in done.stdout + done.stderr
