"""Which addresses are forbidden, and what an allow list opens."""

from __future__ import annotations

import pytest

from core.errors import SettingsError
from core.urls.forbidden_addresses import AllowList, is_forbidden

FORBIDDEN = """
0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.100.100.200 127.0.0.1 127.255.255.254 168.63.129.16 169.254.169.254
172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.192 192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1 198.19.255.255
198.51.100.1 203.0.113.9 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
:: ::1 ::7f00:1 ::8.8.8.8 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:168.63.129.16 ::ffff:0:127.0.0.1
64:ff9b::7f00:1 64:ff9b::a00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::1 64:ff9b:1::808:808
2002:7f00:1:: 2002:a00:1:: 2002:a9fe:a9fe::1 2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:2::1 2001:10::1
2001:db8::1 3fff::1 fc00::1 fd12::1 fd00:ec2::254 fe80::1 fe80::1%eth0 fec0::1 ff02::1 100::1 5f00::1 4000::1
2a00:1450::5efe:10.0.0.1 2a00:1450::200:5efe:192.168.0.1 fd00::5efe:8.8.8.8
"""

PUBLIC = """
1.1.1.1 8.8.8.8 93.184.216.34 172.15.255.255 172.32.0.1 100.63.255.255 100.128.0.1 168.63.129.17 192.0.1.1
2606:4700::1111 2a00:1450:4001:80b::200e ::ffff:8.8.8.8 64:ff9b::808:808 2002:808:808::1
"""


@pytest.mark.parametrize("ip", FORBIDDEN.split())
def test_forbidden(ip: str) -> None:
    """What is not the public internet is forbidden, however it is written or wrapped."""
    assert is_forbidden(ip)


@pytest.mark.parametrize("ip", PUBLIC.split())
def test_public(ip: str) -> None:
    """The public internet stays open, also through NAT64, which IPv6-only networks need."""
    assert not is_forbidden(ip)


@pytest.mark.parametrize("junk", ["", "localhost", "127.1", "1.2.3.4.5", "::g", "127.0.0.1 "])
def test_junk_is_forbidden(junk: str) -> None:
    """What is no address is not let through."""
    assert is_forbidden(junk)


LIST = AllowList.parse(
    [
        "Intranet.example",
        "wiki.example:8080",
        "10.1.2.3",
        "127.0.0.1:9000",
        "[::1]:9001",
        "fd00::5",
        "10.9.0.0/16",
        "fd12::/32",
        "Bücher.example",
        " 192.168.0.5 ",
        "",
    ]
)


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("intranet.example", 1),
        ("INTRANET.EXAMPLE.", 80),
        ("wiki.example", 8080),
        ("10.1.2.3", 22),
        ("::ffff:10.1.2.3", 22),
        ("127.0.0.1", 9000),
        ("::1", 9001),
        ("[::1]", 9001),
        ("0:0:0:0:0:0:0:1", 9001),
        ("fd00::5", 80),
        ("10.9.255.1", 80),
        ("fd12:0:1::1", 80),
        ("xn--bcher-kva.example", 80),
        ("192.168.0.5", 80),
    ],
)
def test_permitted(host: str, port: int) -> None:
    """An entry opens its host on its port, or on all ports if it names none."""
    assert LIST.permits(host, port)


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("example", 80),
        ("a.intranet.example", 80),
        ("wiki.example", 80),
        ("127.0.0.1", 9001),
        ("127.0.0.2", 9000),
        ("::1", 9000),
        ("10.8.0.1", 80),
        ("10.10.0.0", 80),
        ("fd13::1", 80),
        ("", 80),
    ],
)
def test_not_permitted(host: str, port: int) -> None:
    """Neighbours of an entry stay closed."""
    assert not LIST.permits(host, port)


@pytest.mark.parametrize("entry", ["10.0.0.0/33", "a b", "host:0", "host:65536", "host:x", "http://h/", "[::1", ":80"])
def test_unreadable_entry_is_named(entry: str) -> None:
    """A typing error in the list stops the start and is shown."""
    with pytest.raises(SettingsError, match="FETCH_ALLOWED_HOSTS"):
        AllowList.parse([entry])


def test_empty_list_permits_nothing() -> None:
    """By default nothing private is open."""
    assert not AllowList.parse([]).permits("127.0.0.1", 80)
    assert not AllowList().has_addresses


def test_lookups_do_not_grow_with_the_list() -> None:
    """A thousand networks of one size are one lookup, not a thousand."""
    allow = AllowList.parse([f"10.{i // 256}.{i % 256}.0/24" for i in range(2_000)] + [f"h{i}.x" for i in range(5_000)])

    assert len(allow.networks) == 1
    assert allow.permits("10.7.207.9", 80)
    assert allow.permits("h4999.x", 80)
    assert not allow.permits("10.7.208.9", 80)
