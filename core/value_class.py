"""Classes of values: `dataclass(frozen=True, slots=True)`, made at a tenth and filled at a quarter of its price.

A frozen dataclass compiles six functions for itself, which was a fifth of the time in which a worker starts, and sets
each field of a new object by a call. Here `__init__` is compiled once for all classes with as many fields, and the rest
is common to all. That nobody assigns to a field is checked by mypy alone. In all else it is a dataclass: for `replace`,
`fields`, msgspec, pydantic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from operator import attrgetter
from types import CodeType, FunctionType
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value_class(cls: type[T]) -> type[T]:
    """Make a dataclass with slots, whose objects are equal and hashed by their fields."""
    cls.__doc__ = cls.__doc__ or cls.__name__  # else it is made of the signature, in 0.1 ms
    made = dataclass(slots=True, init=False, repr=False, eq=False)(cls)
    for name, function in {**_COMMON, "__init__": _initialiser(made)}.items():
        if name not in cls.__dict__:
            setattr(made, name, function)
    return made


# ── __init__ ──


def _initialiser(made: Any) -> Any:
    """Return an `__init__` that sets the fields, in their order and with their defaults."""
    known = fields(made)
    if hasattr(made, "__post_init__") or any(one.kw_only or not one.init for one in known):
        raise TypeError(f"{made.__qualname__} wants more of __init__ than a value class has; make it a dataclass")
    factories = {f"make{place}": one.default_factory for place, one in enumerate(known)}
    code = _code(tuple(factory is not MISSING for factory in factories.values()))
    renamed = {f"field{place}": one.name for place, one in enumerate(known)}
    code = code.replace(
        co_varnames=tuple(renamed.get(name, name) for name in code.co_varnames),
        co_names=tuple(renamed.get(name, name) for name in code.co_names),
    )
    # Of what has no default of its own, a factory makes one where nothing is given.
    optional = [one for one in known if one.default is not MISSING or one.default_factory is not MISSING]
    if optional != list(known[len(known) - len(optional) :]):
        raise TypeError(f"a field of {made.__qualname__} without a default follows one with a default")
    init = FunctionType(code, {**factories, "MISSING": MISSING}, "__init__", tuple(one.default for one in optional))
    init.__annotations__ = {one.name: one.type for one in known} | {"return": None}
    init.__module__, init.__qualname__ = made.__module__, f"{made.__qualname__}.__init__"
    return init


@cache
def _code(has_factory: tuple[bool, ...]) -> CodeType:
    """Return the code of an `__init__` with so many fields; their names are put in later."""
    lines = [
        f" self.field{place} = make{place}() if field{place} is MISSING else field{place}\n"
        if is_made
        else f" self.field{place} = field{place}\n"
        for place, is_made in enumerate(has_factory)
    ]
    names = ", ".join(f"field{place}" for place in range(len(has_factory)))
    scope: dict[str, Any] = {}
    exec(f"def init(self, {names}):\n{''.join(lines) or ' pass'}", scope)  # noqa: S102 - of the words above only
    code: CodeType = scope["init"].__code__
    return code


# ── what is common to all ──


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
