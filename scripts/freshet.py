"""One command for everything: `freshet NAME …` is the same as `python -m scripts.NAME …`.

Started by `./freshet` in the checkout and by `freshet` in the virtual environment.
"""

from __future__ import annotations

import importlib
import os
import shlex
import shutil
import sys
from pathlib import Path

from scripts.command_names import COMMANDS, TYPED, as_typed, module_of

EXAMPLES = """\
examples:
  freshet status
  freshet articles --category world --since 2h
  freshet read https://www.example.org/story
  freshet search "who won the strike vote" --explain
  freshet feeds add world https://www.example.org/
  freshet domain add ./docs
  freshet export --since 1d > articles.jsonl

`{program} NAME --help` explains a command; `python -m scripts.NAME` is the same one.
./scripts/up runs everything, ./scripts/test runs the tests.
"""
SCRIPTS = ("up", "test", "setup", "bench", "lock")


def main() -> int:
    """Read the name of a command and run it."""
    program = os.environ[TYPED] = _program(os.environ.get(TYPED, "freshet"))
    name, *words = sys.argv[1:] or [""]
    if name == "help" and words:
        name, words = words[0], ["--help"]
    if name in ("", "-h", "--help", "help"):
        sys.stdout.write(_help(program))
        return 0 if name else 2
    name = name.replace("_", "-")  # as modules are written
    if name not in COMMANDS:
        sys.stderr.write(_unknown(name, program))
        return 2
    sys.argv = [name, *words]
    return importlib.import_module(module_of(name)).main() or 0


def _program(typed: str) -> str:
    """Return what to call us: `freshet` where a shell finds it by that, else the path as it was typed."""
    path = Path(typed)
    found = shutil.which(path.name)
    return path.name if found and Path(found) == path else shlex.quote(typed)


def _help(program: str) -> str:
    width = max(map(len, COMMANDS))
    commands = "".join(f"  {name:{width}}  {purpose}\n" for name, purpose in COMMANDS.items())
    return f"usage: {program} NAME [ARGUMENT …]\n\ncommands:\n{commands}\n{as_typed(EXAMPLES.format(program=program))}"


def _unknown(name: str, program: str) -> str:
    if name in SCRIPTS:
        return f"{name} is a script of the checkout: ./scripts/{name}\n"
    import difflib

    close = difflib.get_close_matches(name, COMMANDS, 1, 0.5)
    hint = f" Did you mean `{program} {close[0]}`?" if close else ""
    return f"There is no command {name!r}.{hint} `{program} --help` lists them all.\n"


def _run() -> int:
    """Run, and end quietly when the reader of the output has gone."""
    try:
        try:
            return main()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(_run())
