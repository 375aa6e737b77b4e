"""Classes of values: `dataclass(frozen=True, slots=True)`, made and filled at a quarter of its price.

A frozen dataclass compiles six functions for itself, which was a fifth of the time in which a worker starts, and sets
each field of a new object by a call. Here only `__init__` is compiled, and the rest is common to all. That nobody
assigns to a field is checked by mypy alone. In all else it is a dataclass: for `replace`, `fields`, msgspec, pydantic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value_class(cls: type[T]) -> type[T]:
    """Make a dataclass with slots, whose objects are equal and hashed by their fields."""
    cls.__doc__ = cls.__doc__ or cls.__name__  # else it is made of the signature, in 0.1 ms
    made = dataclass(slots=True, repr=False, eq=False)(cls)
    for name, function in _COMMON.items():
        if name not in cls.__dict__:
            setattr(made, name, function)
    return made


@cache
def _compared(cls: Any) -> Callable[[object], object]:
    """Return what reads the fields of an object by which it is compared."""
    names = [one.name for one in fields(cls) if one.compare]
    return attrgetter(*names) if names else lambda _: ()


def _equals(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    read = _compared(self.__class__)
    return read(self) == read(other)


def _hash(self: Any) -> int:
    return hash(_compared(self.__class__)(self))


def _text(self: Any) -> str:
    shown = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{self.__class__.__qualname__}({shown})"


_COMMON = {"__eq__": _equals, "__hash__": _hash, "__repr__": _text}
