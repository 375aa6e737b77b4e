"""The part of OData that SharePoint understands: filters on items, and errors in its words."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

Predicate = Callable[[Callable[[str], Any]], bool]
"""Takes a function that gives the value of a field."""
TOKEN = re.compile(
    r"\s*(?:(?P<literal>(?:datetime|guid)?'(?:[^']|'')*')|(?P<number>-?\d+(?:\.\d+)?)"
    r"|(?P<name>[A-Za-z_][\w/]*)|(?P<mark>[(),]))"
)
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda left, right: left == right,
    "ne": lambda left, right: left != right,
    "gt": lambda left, right: left > right,
    "ge": lambda left, right: left >= right,
    "lt": lambda left, right: left < right,
    "le": lambda left, right: left <= right,
}
CONSTANTS = {"null": None, "true": True, "false": False}


class ODataError(Exception):
    """An answer in the shape of SharePoint's errors."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def invalid_query(message: str) -> ODataError:
    return ODataError(400, "-1, Microsoft.SharePoint.Client.InvalidClientQueryException", message)


def parse_time(text: str) -> datetime:
    """Return the time of an ISO text; without an offset it is UTC."""
    try:
        time = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise invalid_query(f"Unrecognized 'Edm.DateTime' literal 'datetime'{text}''.") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def parse_filter(text: str) -> Predicate:
    """Return what a `$filter` says; raises an error 400 for what SharePoint would refuse."""
    return _Parser(text).parse()


def _comparable(left: Any, right: Any) -> tuple[Any, Any]:
    """Bring a stored value and a literal to one type; text is compared without case."""
    if isinstance(left, datetime) and isinstance(right, str):
        return left, parse_time(right)
    if isinstance(left, bool) or isinstance(right, bool):
        return bool(left), right if right is None else bool(right)
    if isinstance(left, int | float) and isinstance(right, str):
        return str(left), right
    if isinstance(left, str) and isinstance(right, int | float):
        return left, str(right)
    if isinstance(left, str) and isinstance(right, str):
        return left.casefold(), right.casefold()
    return left, right


def _compare(operator: str, stored: Any, literal: Any) -> bool:
    if isinstance(stored, list):  # a column of several choices has a value if one of its choices is it
        return any(_compare(operator, one, literal) for one in stored)
    if stored is None or literal is None:
        return (stored is literal) == (operator == "eq") and operator in ("eq", "ne")
    left, right = _comparable(stored, literal)
    try:
        return COMPARISONS[operator](left, right)
    except TypeError:
        raise invalid_query("The types of the operands of a comparison in $filter do not fit.") from None


class _Parser:
    """Recursive descent: or, and, comparison or function or parentheses."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str]] = []
        position = 0
        while text[position:].strip():
            match = TOKEN.match(text, position)
            if match is None:
                raise self._refused()
            self._tokens.append((str(match.lastgroup), match[match.lastgroup or 0]))
            position = match.end()

    def parse(self) -> Predicate:
        predicate = self._any()
        if self._tokens:
            raise self._refused()
        return predicate

    def _refused(self) -> ODataError:
        return invalid_query(f'The expression "{self._text}" is not valid.')

    def _take(self) -> tuple[str, str]:
        if not self._tokens:
            raise self._refused()
        return self._tokens.pop(0)

    def _expect(self, mark: str) -> None:
        if self._take() != ("mark", mark):
            raise self._refused()

    def _is_next(self, word: str) -> bool:
        if self._tokens and self._tokens[0] == ("name", word):
            self._tokens.pop(0)
            return True
        return False

    def _any(self) -> Predicate:
        parts = [self._all()]
        while self._is_next("or"):
            parts.append(self._all())
        return lambda value_of: any(part(value_of) for part in parts)

    def _all(self) -> Predicate:
        parts = [self._one()]
        while self._is_next("and"):
            parts.append(self._one())
        return lambda value_of: all(part(value_of) for part in parts)

    def _one(self) -> Predicate:
        kind, text = self._take()
        if (kind, text) == ("mark", "("):
            inside = self._any()
            self._expect(")")
            return inside
        if kind != "name":
            raise self._refused()
        if text in ("startswith", "substringof"):
            return self._function(text)
        operator = self._take()[1]
        if operator not in COMPARISONS:
            raise self._refused()
        literal = self._literal()
        return lambda value_of: _compare(operator, value_of(text), literal)

    def _function(self, name: str) -> Predicate:
        self._expect("(")
        first = self._take()
        self._expect(",")
        second = self._take()
        self._expect(")")
        for _ in range(self._is_next("eq")):  # `startswith(…) eq true` is allowed too
            self._expect_true()
        column, part = (first, second) if name == "startswith" else (second, first)
        if column[0] != "name" or part[0] != "literal":
            raise self._refused()
        wanted = str(_literal(part[1])).casefold()
        if name == "startswith":
            return lambda value_of: str(value_of(column[1]) or "").casefold().startswith(wanted)
        return lambda value_of: wanted in str(value_of(column[1]) or "").casefold()

    def _expect_true(self) -> None:
        if self._take()[1] not in ("true", "1"):
            raise self._refused()

    def _literal(self) -> Any:
        kind, text = self._take()
        if kind == "literal":
            return _literal(text)
        if kind == "number":
            return float(text) if "." in text else int(text)
        if text in CONSTANTS:
            return CONSTANTS[text]
        raise self._refused()


def _literal(text: str) -> Any:
    kind, _, quoted = text.partition("'")
    value = quoted[:-1].replace("''", "'")
    return parse_time(value) if kind == "datetime" else value
