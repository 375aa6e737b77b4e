"""Read `feeds.toml`: feeds by category, and the pace of feeds and hosts.

[categories]
python = ["https://planetpython.org/rss20.xml"]
[[feeds]]
url = "https://planetpython.org/rss20.xml"
interval_seconds = 900
[hosts."docs.example.org"]
gap_seconds = 0
parallel = 8

What is wrong is one sentence that names the line and the key.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from core.errors import FeedFileError
from core.feeds.category_names import category_slug
from core.urls.pace import PaceOption, checked_host, checked_option
from core.urls.secrets import redact
from core.value_class import value_class

TABLES = ("categories", "feeds", "hosts")
FEED_OPTIONS = ("interval_seconds", "gap_seconds")
HOST_OPTIONS = ("gap_seconds", "parallel")


@value_class
class FeedFile:
    categories: Mapping[str, list[str]] = field(default_factory=dict)
    """Feed URLs by category, repeats dropped."""
    feeds: Mapping[str, PaceOption] = field(default_factory=dict)
    """Options by feed URL."""
    hosts: Mapping[str, PaceOption] = field(default_factory=dict)
    """Options by host."""

    @property
    def urls(self) -> set[str]:
        return {url for listed in self.categories.values() for url in listed}


def parse_toml(text: str) -> FeedFile:
    """Return what the file says; FeedFileError names the line and the key that is wrong."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise FeedFileError(f"The feed list is not valid TOML: {exc}") from exc
    lines = _Lines(text)
    if not document.keys() & set(TABLES):
        raise FeedFileError("The feed list has no [categories] table")
    for name in document:
        if name not in TABLES:
            raise lines.error(f"{name} is not a table that Freshet knows; there are {', '.join(TABLES)}", name)
    return FeedFile(
        _categories(document.get("categories", {}), lines),
        _feeds(document.get("feeds", []), lines),
        _hosts(document.get("hosts", {}), lines),
    )


def _categories(table: Any, lines: _Lines) -> dict[str, list[str]]:
    if not isinstance(table, dict):
        raise lines.error("The feed list has no [categories] table; categories is something else", "categories")
    categories: dict[str, list[str]] = {}
    for name, urls in table.items():
        key = f"categories.{name}"
        if not isinstance(urls, list):
            raise lines.error(f"{key} must be a list of feed URLs", name)
        listed = categories.setdefault(category_slug(name), [])
        listed += [url for url in dict.fromkeys(_url(one, key, lines, name) for one in urls) if url not in listed]
    return categories


def _feeds(tables: Any, lines: _Lines) -> dict[str, PaceOption]:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise lines.error("feeds must be written as [[feeds]], with a url and its options", "feeds")
    options: dict[str, PaceOption] = {}
    for place, table in enumerate(tables):
        key, head = f"feeds[{place}]", lines.number(r"\[\[\s*feeds\s*\]\]", place)
        if "url" not in table:
            raise lines.error(f"{key} has no url", at=head)
        url = _url(table["url"], f"{key}.url", lines, "url", head)
        if url in options:
            raise lines.error(f"{key}.url: {redact(url)} has options already", at=head)
        values = {name: value for name, value in table.items() if name != "url"}
        options[url] = _option(values, FEED_OPTIONS, key, lines, head)
    return options


def _hosts(table: Any, lines: _Lines) -> dict[str, PaceOption]:
    if not isinstance(table, dict):
        raise lines.error('hosts must be tables: [hosts."docs.example.org"]', "hosts")
    options: dict[str, PaceOption] = {}
    for name, values in table.items():
        key, head = f'hosts."{name}"', lines.number(rf"\[\s*hosts\b.*{re.escape(name)}")
        if not isinstance(values, dict):
            raise lines.error(f'{key} is not a table; a name with dots is quoted: [hosts."docs.example.org"]', at=head)
        if any(isinstance(value, dict) for value in values.values()):
            raise lines.error(f'{key}: a name with dots is quoted: [hosts."docs.example.org"]', at=head)
        try:
            host = checked_host(name)
        except ValueError as error:
            raise lines.error(f"hosts: {error}", at=head) from None
        if host in options:
            raise lines.error(f"{key} has options already", at=head)
        options[host] = _option(values, HOST_OPTIONS, key, lines, head)
    return options


def _option(values: Mapping[str, Any], allowed: tuple[str, ...], key: str, lines: _Lines, head: int) -> PaceOption:
    try:
        return checked_option(values, allowed)
    except ValueError as error:
        raise lines.error(f"{key}.{error}", str(error).partition(" ")[0], head) from None


def _url(value: Any, key: str, lines: _Lines, name: str, head: int = 0) -> str:
    if not isinstance(value, str) or not value.strip().lower().startswith(("http://", "https://")):
        raise lines.error(f"{key} lists {value!r}, which is not an http or https URL", name, head)
    return value.strip()


class _Lines:
    """Finds the line of a key; the parser of the standard library does not say where a value stood."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()

    def number(self, pattern: str, place: int = 0, after: int = 0) -> int:
        """Return the number of the line that begins with this pattern, the first or a later one; 0 if there is none."""
        begins = re.compile(rf"\s*{pattern}")
        numbers = [n for n, line in enumerate(self._lines, start=1) if n > after and begins.match(line)]
        return numbers[place] if place < len(numbers) else 0

    def error(self, text: str, name: str = "", at: int = 0) -> FeedFileError:
        """Return the error with the line of a key below the line `at`, or with that line itself."""
        number = self.number(rf"\[*\s*[\"']?{re.escape(name)}\b", after=at) if name else 0
        number = number or at
        return FeedFileError(f"Line {number}: {text}" if number else text)
