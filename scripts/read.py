"""Show the clean text of an article, of a page of a site, or of a file.

python -m scripts.read 0123456789abcdef
python -m scripts.read https://www.example.org/story
python -m scripts.read docs/keys.md --markdown
python -m scripts.read url_mf2c5gkqeu3zq2jv4twsdhy7ae --json

By an article's uid (`python -m scripts.articles` shows it), any URL of it, an item's id, or the path of a file.
On a terminal a long text is shown with PAGER.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from core.errors import NotFound
from core.pages.text_cleaning import printable
from core.runtime.terminal import echo
from core.search.io.stored_texts import StoredText, StoredTextReader, stored_text_json
from core.store import connect
from core.urls.secrets import redact
from scripts import command_line
from scripts.tables import ago

MOST_ALIASES = 5
DEFAULT_PAGER = "less -R"


async def read(name: str, *, markdown: bool, as_json: bool) -> int:
    async with command_line.open_session() as (settings, keys, client):
        reader = StoredTextReader(client, keys)
        text = await reader.find(name, Path.cwd(), settings.tracking_param_prefixes)
        original = await reader.find(text.duplicate_of, Path.cwd()) if text and text.duplicate_of else None
        now = await connect.now(client)
    if text is None:
        raise NotFound(f"There is no text of {redact(name)}. `freshet why {shlex.quote(redact(name))}` tells why.")
    if as_json:
        command_line.print_json(stored_text_json(text))
    else:
        head = _head(text, original.url if original else "", now)
        show("\n".join([*head, "", text.markdown if markdown else text.text]))
    return 0


def _head(text: StoredText, original_url: str, now: float) -> list[str]:
    more = len(text.aliases) - MOST_ALIASES
    names = {
        "source": " · ".join(filter(None, (*text.categories, *text.domains, text.feed or text.host))),
        "author": text.author,
        "published": _time(text.published_ts, now),
        "fetched": _time(text.fetched_ts, now),
        "changed": _time(text.updated_ts, now) if text.updated_ts != text.fetched_ts else "",
        "verified": f"{_time(text.verified_ts, now)}, by {text.verified_by}" if text.verified_ts else "",
        "language": text.language,
        "aliases": "\n            ".join([*text.aliases[:MOST_ALIASES], *([f"and {more} more"] if more > 0 else [])]),
        "duplicate": f"of {original_url or text.duplicate_of}" if text.duplicate_of else "",
        "id": " · ".join(filter(None, (text.uid, text.id))),
    }
    return [text.title or text.url, text.url, *(f"  {name:<10}{value}" for name, value in names.items() if value)]


def _time(timestamp: float | None, now: float) -> str:
    if not timestamp or timestamp < 0:
        return ""
    return f"{datetime.fromtimestamp(timestamp, UTC):%Y-%m-%d %H:%M} UTC, {ago(timestamp, now)}"


def show(text: str) -> None:
    """Print the text; on a terminal that is too small for it, through PAGER."""
    words = shlex.split(os.environ.get("PAGER", DEFAULT_PAGER))
    if not words or not sys.stdout.isatty() or not _is_longer_than_screen(text):
        echo(text)
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the pager's
    try:
        subprocess.run(words, input=printable(text).encode(), check=False)
    except FileNotFoundError:
        echo(text)
    finally:
        signal.signal(signal.SIGINT, before)


def _is_longer_than_screen(text: str) -> bool:
    columns, lines = shutil.get_terminal_size()
    return sum(len(line) // max(columns, 1) + 1 for line in text.splitlines()) >= lines


def main() -> int:
    parser = command_line.parser("python -m scripts.read", __doc__)
    parser.add_argument("name", metavar="UID|URL|ID|PATH", help="an article, a page or a file, by any of its names")
    parser.add_argument("--markdown", action="store_true", help="with headings, lists, tables and code")
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args()
    return command_line.run(read(options.name, markdown=options.markdown, as_json=options.json))


if __name__ == "__main__":
    sys.exit(main())
