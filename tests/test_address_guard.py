"""The door: what a URL may look like, and which sockets are opened."""

from __future__ import annotations

import asyncio
import socket

import pytest

from core.errors import FailDetail
from core.models import Failed
from core.net.address_guard import AddressBlocked, Guard, Target
from core.urls.forbidden_addresses import AllowList

GUARD = Guard(AllowList.parse(["intranet.test", "wiki.test:9000"]), (80, 443, 8080))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://example.com/a?b=%7e#frag", "http://example.com/a?b=%7e"),
        ("HTTPS://Example.COM:443/", "https://example.com/"),
        ("http://example.com:8080/x|y", "http://example.com:8080/x|y"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
        ("http://8.8.8.8/", "http://8.8.8.8/"),
        ("http://[2606:4700::1111]/", "http://[2606:4700::1111]/"),
        ("http://intranet.test:22/", "http://intranet.test:22/"),
        ("http://wiki.test:9000/", "http://wiki.test:9000/"),
        ("http://wiki.test/", "http://wiki.test/"),
    ],
)
def test_ordinary_urls_pass_as_they_are(url: str, expected: str) -> None:
    """Scheme and host get their one spelling, the path is not touched, the fragment stays at home."""
    target = GUARD.target(url)

    assert isinstance(target, Target)
    assert target.url == expected


@pytest.mark.parametrize(
    ("url", "detail"),
    [
        ("ftp://example.com/", FailDetail.BLOCKED),
        ("file:///etc/passwd", FailDetail.BLOCKED),
        ("javascript:alert(1)", FailDetail.BLOCKED),
        ("http://user:pw@example.com/", FailDetail.BLOCKED),
        ("http://user@example.com/", FailDetail.BLOCKED),
        ("http://example.com:22/", FailDetail.BLOCKED),
        ("http://example.com:0/", FailDetail.BLOCKED),
        ("http://wiki.test:9001/", FailDetail.BLOCKED),
        ("http://127.0.0.1/", FailDetail.BLOCKED),
        ("http://0x7f.1/", FailDetail.BLOCKED),
        ("http://2130706433/", FailDetail.BLOCKED),
        ("http://0177.0.0.1/", FailDetail.BLOCKED),
        ("http://127.0.0.1./", FailDetail.BLOCKED),
        ("http://１２７.0.0.1/", FailDetail.BLOCKED),
        ("http://[::ffff:7f00:1]/", FailDetail.BLOCKED),
        ("http://example.com:99999/", FailDetail.URL),
        ("http://a b/", FailDetail.URL),
        ("http://", FailDetail.URL),
        ("", FailDetail.URL),
        ("//example.com/", FailDetail.URL),
        ("http://example.com/\ud800", FailDetail.URL),
        ("http://example.com/" + "a" * 5_000, FailDetail.URL),
    ],
)
def test_what_does_not_pass(url: str, detail: FailDetail) -> None:
    """Other schemes, credentials, odd ports and private literals in any spelling end at the door, with no secret."""
    refused = GUARD.target(url)

    assert isinstance(refused, Failed)
    assert refused.detail is detail
    assert "pw" not in refused.text


def test_a_literal_passes_where_the_operator_allows_it() -> None:
    """An allowed address may be asked on the port of its entry and on no other."""
    guard = Guard(AllowList.parse(["127.0.0.1:9000"]), (80,))

    assert isinstance(guard.target("http://127.0.0.1:9000/"), Target)
    assert isinstance(guard.target("http://0x7f.1:9000/"), Target)
    assert isinstance(guard.target("http://127.0.0.1/"), Failed)


def info(address: str, port: int) -> tuple[object, ...]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return (family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))


def opens(guard: Guard, url: str, address: str, port: int) -> bool:
    target = guard.target(url)
    assert isinstance(target, Target)
    with guard.connecting_to(target) as attempt:
        try:
            guard.open_socket(info(address, port)).close()
        except AddressBlocked:
            assert attempt.blocked
            return False
    return True


@pytest.mark.parametrize(
    ("url", "address", "port", "expected"),
    [
        ("http://example.com/", "8.8.8.8", 80, True),
        ("http://example.com/", "10.0.0.1", 80, False),
        ("http://example.com/", "::1", 80, False),
        ("http://example.com/", "fe80::1%1", 80, False),
        ("http://intranet.test/", "10.0.0.1", 80, True),
        ("http://wiki.test:9000/", "127.0.0.1", 9000, True),
        ("http://wiki.test/", "127.0.0.1", 80, False),
    ],
)
def test_the_address_decides_unless_the_host_is_allowed(url: str, address: str, port: int, expected: bool) -> None:
    """A public name that resolves to a private address gets no socket."""
    assert opens(GUARD, url, address, port) is expected


def test_an_allowed_address_opens_for_any_name() -> None:
    """An entry for an address or network holds whatever name leads there, also on an odd port."""
    guard = Guard(AllowList.parse(["10.0.0.0/8", "127.0.0.1:9000"]), (80,))

    assert opens(guard, "http://any.example/", "10.1.2.3", 80)
    assert opens(guard, "http://any.example:9000/", "127.0.0.1", 9000)
    assert not opens(guard, "http://any.example:9001/", "127.0.0.1", 9001)
    assert not opens(guard, "http://any.example:9001/", "8.8.8.8", 9001)


def test_no_target_no_socket() -> None:
    """Code that forgets to say where it goes gets nothing, instead of everything."""
    with pytest.raises(LookupError):
        GUARD.open_socket(info("8.8.8.8", 80))


async def test_connection_tasks_inherit_the_target() -> None:
    """Happy eyeballs opens sockets in tasks of their own; each sees the target it was started for, not a later one."""

    async def try_open(address: str) -> bool:
        await asyncio.sleep(0)
        try:
            GUARD.open_socket(info(address, 80)).close()
        except AddressBlocked:
            return False
        return True

    async def visit(url: str) -> bool:
        target = GUARD.target(url)
        assert isinstance(target, Target)
        with GUARD.connecting_to(target):
            return await asyncio.create_task(try_open("10.0.0.1"))

    assert await asyncio.gather(visit("http://intranet.test/"), visit("http://a.example/")) == [True, False]


def test_behind_a_proxy_the_proxy_is_trusted_and_literals_are_still_judged() -> None:
    """We connect only to the proxy the operator named, wherever it is."""
    guard = Guard(AllowList(), (80,), proxied=True)

    assert opens(guard, "http://example.com/", "10.0.0.1", 3128)
    assert isinstance(guard.target("http://127.0.0.1/"), Failed)
    assert isinstance(guard.target("http://example.com:22/"), Failed)
