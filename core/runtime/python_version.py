"""Print one sentence if this Python cannot run Freshet, instead of a traceback about a missing module.

Imported before anything else by every package with commands, so it uses nothing but the standard library, and only
what old versions of Python have too.
"""

import atexit
import gc
import importlib.util
import os
import signal
import sys
from typing import Any

from core.runtime import garbage

NEEDED = ["ada_url", "aiohttp", "brotli", "charset_normalizer", "feedparser", "isal", "lxml", "lxml_html_clean"]
NEEDED += ["msgspec", "protego", "publicsuffixlist", "py3langid", "pydantic", "redis", "rq", "selectolax"]
NEEDED += ["dotenv", "tqdm", "trafilatura"]
"""Every dependency of pyproject.toml by its module, without what only `up` needs."""
OLDEST = (3, 11)


def require() -> None:
    """Exit with a sentence unless this Python is new enough and has what Freshet needs; from now on Ctrl-C is quiet."""
    sys.excepthook = _report
    garbage.expect_imports()
    # Else the end of the process searches all that was imported for garbage, several times: a fifth of a short command.
    atexit.register(gc.freeze)
    # Pydantic reads the metadata of every installed package for plugins of its own, of which we have none: 10 ms.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if sys.version_info >= OLDEST and not missing:
        return
    version = ".".join(map(str, sys.version_info[:2]))
    lacks = "is too old" if sys.version_info < OLDEST else "has no module " + missing[0]
    words = list(getattr(sys, "orig_argv", []))
    command = " ".join(words[words.index("-m") :]) if "-m" in words else "-m scripts.status"
    sys.stderr.write(
        f"Freshet cannot run with {sys.executable} (Python {version}), which {lacks}. "
        f"Run ./scripts/setup, then .venv/bin/python {command}\n"
    )
    sys.exit(2)


def _report(*caught: Any) -> None:
    """End by the signal itself after Ctrl-C, which may come during the imports; anything else is a traceback."""
    if not issubclass(caught[0], KeyboardInterrupt):
        sys.__excepthook__(*caught)
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
