"""Value classes behave as frozen dataclasses do, except that only mypy keeps their fields from being assigned."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import field, fields, replace

import msgspec
import pytest

from core.value_class import value_class


@value_class
class Place:
    """A class as the code has hundreds of."""

    name: str
    port: int = 80
    tags: tuple[str, ...] = ()
    seen: dict[str, int] = field(default_factory=dict, compare=False, repr=False)


@value_class
class Empty:
    """Without fields."""


@value_class
class Named:
    """With a text of its own."""

    name: str

    def __repr__(self) -> str:
        return self.name


@pytest.mark.parametrize(
    ("one", "other", "is_equal"),
    [
        (Place("a"), Place("a"), True),
        (Place("a"), Place("b"), False),
        (Place("a", 1), Place("a", 2), False),
        (Place("a", seen={"x": 1}), Place("a"), True),
        (Empty(), Empty(), True),
        (Empty(), Place("a"), False),
        (Named("a"), "a", False),
    ],
)
def test_equality(one: object, other: object, is_equal: bool) -> None:
    """Objects of one class are equal by the fields that are compared, and then have the same hash."""
    assert (one == other) is is_equal
    assert len({one, other}) == (1 if is_equal else 2)


def test_it_is_a_dataclass() -> None:
    """Copies with changes, fields, patterns, defaults of their own and pickles work as of any dataclass."""
    place = Place("a", tags=("x",))
    assert replace(place, port=8080) == Place("a", 8080, ("x",))
    assert [one.name for one in fields(place)] == ["name", "port", "tags", "seen"]
    assert Place("a").seen is not Place("a").seen
    assert pickle.loads(pickle.dumps(place)) == place
    match place:
        case Place(name, port):
            assert (name, port) == ("a", 80)


def test_arguments() -> None:
    """Fields are arguments in their order, by place or by name; what is missing or unknown is an error."""
    assert str(inspect.signature(Place))[:37] == "(name: 'str', port: 'int' = 80, tags:"
    assert Place(port=1, name="a") == Place("a", 1)
    with pytest.raises(TypeError, match=r"Place.__init__\(\) missing 1 required positional argument: 'name'"):
        Place()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'prot'"):
        Place("a", prot=1)  # type: ignore[call-arg]


def test_order_of_defaults() -> None:
    """A field without a default after one with a default is an error, as in any dataclass."""
    with pytest.raises(TypeError, match="Wrong without a default"):

        @value_class
        class Wrong:
            first: int = 0
            second: int  # type: ignore[misc]


def test_what_it_does_not_support_is_refused() -> None:
    """A field that is no argument would silently become one."""
    with pytest.raises(TypeError, match="make it a dataclass"):

        @value_class
        class Wrong:
            first: int = field(init=False, default=3)


def test_slots() -> None:
    """There is no place for a field that was not declared."""
    with pytest.raises(AttributeError):
        Place("a").nmae = "b"  # type: ignore[attr-defined]


def test_texts() -> None:
    """People see class and fields, unless the class has a text of its own."""
    assert repr(Place("a")) == "Place(name='a', port=80, tags=())"
    assert repr(Named("a")) == "a"


def test_messages() -> None:
    """Parse children send them as they do dataclasses."""
    packed = msgspec.msgpack.encode(Place("a", tags=("x",)))
    assert msgspec.msgpack.decode(packed, type=Place) == Place("a", tags=("x",))
