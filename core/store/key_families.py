"""Find the family of a key and the type it must have, read from the docstrings of `Keys`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cache

from core.keys import Keys
from core.value_class import value_class

_MARK = "\n"
_TYPE = re.compile(r"(SET|ZSET|HASH|LIST|STRING|STREAM|Any type)\b")
ANY = "any"


@value_class
class KeyFamily:
    """Keys that are built alike."""

    name: str
    """The method or property of `Keys`."""
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
        families = [_family(keys, name, member) for name, member in vars(Keys).items()]
        self._all = sorted(filter(None, families), key=lambda one: -len(one.tail))
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
    """Return all families of a deployment, made once: reading a hundred signatures takes longer than most commands."""
    return KeyFamilies(keys)


def _family(keys: Keys, name: str, member: object) -> KeyFamily | None:
    is_one_key = isinstance(member, property)
    described = _TYPE.match(inspect.getdoc(member) or "")
    if described is None or name.startswith("_"):
        return None
    kind = ANY if described[1] == "Any type" else described[1].lower()
    if is_one_key:
        return KeyFamily(name, kind, getattr(keys, name), is_one_key=True)
    build = getattr(keys, name)
    built = build(*[_MARK] * len(inspect.signature(build).parameters))
    head, _, rest = built.partition(_MARK)
    return KeyFamily(name, kind, head, rest.rpartition(_MARK)[2])
