"""Find the family of a key and the type it must have, as `Keys` declares it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from core.keys import ANY, DECLARED, Keys, OneKey
from core.value_class import value_class


@value_class
class KeyFamily:
    """Keys that are built alike."""

    name: str
    """Of the attribute of `Keys`."""
    type: str
    """As the TYPE command says it, or `ANY`."""
    head: str
    tail: str = ""
    is_one_key: bool = False

    def has(self, key: str) -> bool:
        """Return whether the key is one of them."""
        if self.is_one_key:
            return key == self.head
        return len(key) >= len(self.head) + len(self.tail) and key.startswith(self.head) and key.endswith(self.tail)

    def id_in(self, key: str) -> str:
        """Return what stands between head and tail."""
        return key[len(self.head) : len(key) - len(self.tail)]


class KeyFamilies:
    """All families of one deployment."""

    def __init__(self, keys: Keys) -> None:
        self._all: list[KeyFamily] = []
        for key in DECLARED:
            head, *others = key.parts(keys)
            self._all.append(KeyFamily(key.name, key.type.lower(), head, "".join(others[-1:]), isinstance(key, OneKey)))
        self._all.sort(key=lambda one: -len(one.tail))
        self._by_name = {one.name: one for one in self._all}
        self._one_key = {one.head: one for one in self._all if one.is_one_key}
        self._by_head: dict[str, list[KeyFamily]] = {}
        for one in self._all:
            if not one.is_one_key:
                # With the longest tail first: `source:<sid>:due` is not `source:<sid>`.
                self._by_head.setdefault(one.head, []).append(one)

    def __iter__(self) -> Iterator[KeyFamily]:
        return iter(self._all)

    def __getitem__(self, name: str) -> KeyFamily:
        return self._by_name[name]

    def of(self, key: str) -> KeyFamily | None:
        """Return the family of a key; None if it is not ours."""
        if key in self._one_key:
            return self._one_key[key]
        end = key.rfind(":")
        while end >= 0:
            for family in self._by_head.get(key[: end + 1], ()):
                if family.has(key):
                    return family
            end = key.rfind(":", 0, end)
        return None

    def type_of(self, key: str) -> str:
        """Return the type that a key must have; empty if it is not ours, or may have any."""
        family = self.of(key)
        return family.type if family and family.type != ANY else ""

    @property
    def heads(self) -> frozenset[str]:
        """The beginnings of keys to which an id is added; scripts are given these."""
        return frozenset(self._by_head)


@cache
def key_families(keys: Keys) -> KeyFamilies:
    """Return all families of a deployment, made once."""
    return KeyFamilies(keys)
