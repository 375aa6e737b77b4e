"""Hosts on one machine: network namespaces on a bridge, each with its own address, to be cut off and killed.

The machine itself is at `HUB` on the same bridge, where Redis and the web of a measurement listen. Needs root and
iproute2; `missing` says what is not there. Nothing leaves this machine.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NETWORK = "10.77"
HUB = f"{NETWORK}.0.1"


def missing() -> str:
    """Why namespaces cannot be made here; empty if they can."""
    if shutil.which("ip") is None:
        return "iproute2 is not installed"
    probe = f"fr{os.getpid()}p"
    done = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    if done.returncode:
        return f"network namespaces are not permitted ({done.stderr.strip()})"
    _ip("netns", "delete", probe)
    return ""


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@dataclass(slots=True)
class Host:
    """One namespace."""

    name: str
    address: str
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
        """Start a program on this host."""
        with log.open("ab") as output:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self.name, *command],
                cwd=ROOT,
                env=dict(environment),
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
            )
        self.processes.append(process)
        return process

    def cut_off(self) -> None:
        """No packet goes in or out any more; nobody is told."""
        _ip("link", "set", f"{self.name}o", "down")

    def reconnect(self) -> None:
        """The network is back."""
        _ip("link", "set", f"{self.name}o", "up")

    def kill(self) -> None:
        """kill -9 of all that runs here."""
        found = subprocess.run(["ip", "netns", "pids", self.name], check=True, capture_output=True, text=True)
        for pid in map(int, found.stdout.split()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.processes:
            process.wait()


@contextlib.contextmanager
def open_hosts(count: int, webs: int) -> Iterator[tuple[list[Host], list[str]]]:
    """Make so many hosts, and so many further addresses of this machine for its web; all of it goes at the end."""
    prefix = f"fr{os.getpid() % 100_000}"
    bridge = f"{prefix}b"
    hosts = [Host(f"{prefix}h{number}", f"{NETWORK}.0.{number + 10}") for number in range(count)]
    web = [f"{NETWORK}.1.{number + 1}" for number in range(webs)]
    try:
        _ip("link", "add", bridge, "type", "bridge")
        for address in (HUB, *web):
            _ip("address", "add", f"{address}/16", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for host in hosts:
            _connect(host, bridge)
        yield hosts, web
    finally:
        for host in hosts:
            with contextlib.suppress(subprocess.CalledProcessError):
                host.kill()
                _ip("netns", "delete", host.name)
        with contextlib.suppress(subprocess.CalledProcessError):
            _ip("link", "delete", bridge)


def _connect(host: Host, bridge: str) -> None:
    outer, inner = f"{host.name}o", f"{host.name}i"
    _ip("netns", "add", host.name)
    _ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", host.name)
    _ip("link", "set", outer, "master", bridge, "up")
    for words in (("link", "set", "lo", "up"), ("address", "add", f"{host.address}/16", "dev", inner)):
        _ip("-n", host.name, *words)
    _ip("-n", host.name, "link", "set", inner, "up")
