"""The commands of `freshet`, and how the person typed the one that runs.

Docstrings and messages say `freshet feeds list` or `python -m scripts.feeds list`; people read the one that they use.
Imports nothing of Freshet, so that `freshet --help` is quick.
"""

from __future__ import annotations

import os
import re

TYPED = "FRESHET_COMMAND"
"""The variable that says by which name `freshet` was started; unset: `python -m scripts.NAME`."""

COMMANDS = {
    "status": "what is there and how it is doing: feeds, articles, failures, sources, runs, queues",
    "articles": "headlines, newest first",
    "read": "the clean text of an article, a page or a file",
    "why": "why a URL is there, or not: its whole trail",
    "search": "search by words and by meaning",
    "export": "articles, pages and files as JSON Lines",
    "feeds": "add, remove, list, import and export feeds; their health",
    "domain": "add, crawl, list and remove sites, folders and repositories",
    "runs": "watch, pause, resume, cancel and retry runs",
    "webhooks": "send events to URLs of yours, signed; list, pause, replay",
    "reindex": "check items now, or read them again",
    "forget": "remove something with everything that belongs to it",
    "doctor": "check the whole store, and repair it",
    "migrate-to-unified-state": "take over the state files of earlier systems, or write them again",
    "mcp": "search, articles and runs for agents: a server of the Model Context Protocol",
    "redis-cli": "redis-cli on the store, address and password included",
    "sample-site": "serve the sample newspaper",
    "sample-sharepoint": "serve the sample SharePoint",
}
"""Name and purpose. The module is `scripts.<name>` with `_` for `-`, and has a `main()`."""

_NAMES = "|".join(sorted({*COMMANDS, *(name.replace("-", "_") for name in COMMANDS)}, key=len, reverse=True))
_REFERENCE = re.compile(rf"(?<![\w./-])(?:freshet |python -m scripts\.)({_NAMES})\b(?!-|\.\w)")
_COLUMNS = re.compile(rf"^({_REFERENCE.pattern})(.*?)( {{2,}})(?=\S)", re.MULTILINE)


def module_of(name: str) -> str:
    return f"scripts.{name.replace('-', '_')}"


def command(words: str) -> str:
    """Return a command as this person would type it: `feeds list` → `./freshet feeds list`."""
    name, space, rest = words.partition(" ")
    typed = os.environ.get(TYPED)
    return f"{typed} {name.replace('_', '-')}{space}{rest}" if typed else f"python -m {module_of(name)}{space}{rest}"


def as_typed(text: str) -> str:
    """Return the text with every command in it as this person would type it."""
    return _REFERENCE.sub(lambda found: command(found[1]), text)


def columns_as_typed(text: str) -> str:
    """Return a table of commands and explanations in the same way, the explanations where they were."""

    def line(found: re.Match[str]) -> str:
        typed = as_typed(found[1])
        return f"{typed}{found[3]}{' ' * max(len(found[1]) + len(found[4]) - len(typed), 2)}"

    return as_typed(_COLUMNS.sub(line, text))
