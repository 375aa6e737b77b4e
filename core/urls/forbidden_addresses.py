"""Tell which addresses must not be fetched, and which private ones the operator allows.

`ipaddress.is_global` alone is not enough: it lets through Azure's 168.63.129.16, Oracle's 192.0.0.192 and
IPv4 addresses wrapped in NAT64 or 6to4. So there is an explicit list, and wrapped addresses are unwrapped first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

import ada_url

from core.errors import SettingsError
from core.value_class import value_class

# IANA special-purpose registries (RFC 6890 and updates), and the cloud endpoints that look public.
_FORBIDDEN = [
    ip_network(network)
    for network in (
        "0.0.0.0/8",  # this network; 0.0.0.0 connects to the own host
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier-grade NAT; Alibaba's metadata is 100.100.100.200
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # Azure's wire server
        "169.254.0.0/16",  # link-local; metadata of most clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments; Oracle's metadata is 192.0.0.192
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarking
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved; 255.255.255.255 is broadcast
        "2001::/23",  # protocol assignments: Teredo, benchmarking, ORCHID
        "2001:db8::/32",  # documentation
        "3fff::/20",  # documentation
    )
]
# Everything else in IPv6 is loopback, private, link- or site-local, multicast, discard, IPv4-compatible or unassigned.
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")  # the local-use 64:ff9b:1::/48 is outside global unicast and stays forbidden
_SIX_TO_FOUR = IPv6Network("2002::/16")
_ISATAP = (0x00005EFE, 0x02005EFE)


@lru_cache(maxsize=4096)
def is_forbidden(ip: str) -> bool:
    """Return whether a connection to this address would leave the public internet; True if it is not an address."""
    try:
        address = ip_address(ip.partition("%")[0])
    except ValueError:
        return True
    if isinstance(address, IPv4Address):
        return _is_special(address)
    number = int(address)
    # IPv4 addresses inside IPv6: mapped, NAT64, 6to4. Packets end up at the inner one.
    if address.ipv4_mapped is not None:
        return _is_special(address.ipv4_mapped)
    if address in _NAT64:
        return _is_special(IPv4Address(number & 0xFFFFFFFF))
    if address in _SIX_TO_FOUR:
        return _is_special(IPv4Address((number >> 80) & 0xFFFFFFFF))
    # ISATAP: the last 32 bits are an IPv4 address of the site's own network.
    is_isatap = (number >> 32) & 0xFFFFFFFF in _ISATAP
    if is_isatap and _is_special(IPv4Address(number & 0xFFFFFFFF)):
        return True
    return address not in _GLOBAL_UNICAST or _is_special(address)


def _is_special(address: IPv4Address | IPv6Address) -> bool:
    return not address.is_global or any(address in network for network in _FORBIDDEN)


# ── what the operator allows ────────────────────────────────────────────────────────────────────


@value_class
class AllowList:
    """Hosts and addresses that may be private. Lookups do not grow with the number of entries."""

    any_port: frozenset[str] = frozenset()
    one_port: frozenset[tuple[str, int]] = frozenset()
    networks: dict[tuple[int, int], frozenset[int]] = field(default_factory=dict)
    """(IP version, prefix length) → network prefixes as numbers."""
    has_addresses: bool = False
    """Can an address be allowed whose host name is not?"""

    @classmethod
    def parse(cls, entries: Iterable[str]) -> AllowList:
        """Read `host`, `host:port`, `ip`, `[v6]:port` and CIDR; `SettingsError` names an entry that is none."""
        hosts: set[str] = set()
        pairs: set[tuple[str, int]] = set()
        networks: dict[tuple[int, int], set[int]] = {}
        for entry in filter(None, map(str.strip, entries)):
            try:
                if "/" in entry:
                    network = ip_network(entry, strict=False)
                    prefix = int(network.network_address) >> (network.max_prefixlen - network.prefixlen)
                    networks.setdefault((network.version, network.prefixlen), set()).add(prefix)
                    continue
                host, port = _host_and_port(entry)
            except ValueError:
                raise SettingsError(
                    f"Cannot start. FETCH_ALLOWED_HOSTS: {entry[:80]!r} is not a host, host:port, address, [v6]:port "
                    "or CIDR. See .env.example."
                ) from None
            if port is None:
                hosts.add(host)
            else:
                pairs.add((host, port))
        frozen = {key: frozenset(prefixes) for key, prefixes in networks.items()}
        addresses = bool(frozen) or any(map(is_address, hosts)) or any(is_address(host) for host, _ in pairs)
        return cls(frozenset(hosts), frozenset(pairs), frozen, addresses)

    def permits(self, host: str, port: int) -> bool:
        """Return whether this host or address is allowed on this port.

        Brackets, a trailing dot and a scope id do not matter.
        """
        name = _bare(host)
        if name in self.any_port or (name, port) in self.one_port:
            return True
        if not self.networks or not is_address(name):
            return False
        address = ip_address(name)
        return any(
            version == address.version and int(address) >> (address.max_prefixlen - length) in prefixes
            for (version, length), prefixes in self.networks.items()
        )


@lru_cache(maxsize=4096)
def _bare(host: str) -> str:
    """Return one spelling per host: lower case, no brackets, dot or scope; addresses in their short form, unmapped."""
    name = host.strip("[]").partition("%")[0].removesuffix(".").lower()
    if not is_address(name):
        return name
    address = ip_address(name)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


@lru_cache(maxsize=4096)
def is_address(name: str) -> bool:
    """Return whether this is an IP literal and not a name."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _host_and_port(entry: str) -> tuple[str, int | None]:
    """Raises ValueError for what is neither a host nor an address."""
    if entry.startswith("["):
        host, bracket, rest = entry.partition("]")
        host, port = host + bracket, rest.removeprefix(":")
    elif entry.count(":") > 1:
        host, port = f"[{entry}]", ""
    else:
        host, _, port = entry.partition(":")
    # The same parser that reads URLs, so that `Bücher.example` and `0x7f.1` mean here what they mean there.
    name = ada_url.URL(f"http://{host}/").hostname
    if not name or (port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536)):
        raise ValueError(entry)
    return _bare(name), int(port) if port else None
