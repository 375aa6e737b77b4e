"""A resolver that answers what it is told."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence

from aiohttp.abc import AbstractResolver, ResolveResult


class FakeDns(AbstractResolver):
    """Names to addresses; of several lists the first is the first answer, the last one repeats (rebinding)."""

    def __init__(self, names: Mapping[str, Sequence[Sequence[str]]]) -> None:
        self._answers = {name: list(answers) for name, answers in names.items()}
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked.append(host)
        answers = self._answers.get(host.rstrip("."))
        if not answers:
            raise OSError(socket.EAI_NONAME, "Name or service not known")
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [
            ResolveResult(hostname=host, host=address, port=port, family=_family(address), proto=0, flags=0)
            for address in addresses
        ]

    async def close(self) -> None:
        pass


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
