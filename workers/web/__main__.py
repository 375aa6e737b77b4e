"""The HTTP API.

python -m workers.web          on API_BIND, until SIGTERM or Ctrl-C
"""

from __future__ import annotations

import argparse
import sys

from core.errors import FreshetError
from core.runtime import signals
from core.runtime.terminal import echo
from core.settings import load


def main() -> int:
    argparse.ArgumentParser(prog="python -m workers.web", description=__doc__.splitlines()[0]).parse_args()
    try:
        from workers.web.app import serve
    except ModuleNotFoundError as error:
        echo(f"The HTTP API needs {error.name}. Install it with: pip install -e '.[web]'", file=sys.stderr)
        return signals.EXIT_FAILED
    try:
        settings = load()
    except FreshetError as error:
        echo(error, file=sys.stderr)
        return signals.EXIT_FAILED
    return signals.run_until_stopped(lambda: serve(settings))


if __name__ == "__main__":
    sys.exit(main())
