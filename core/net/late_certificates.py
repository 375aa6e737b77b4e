"""Import aiohttp without the certificates of the system, which are read at the first connection that needs them.

aiohttp reads them twice when it is imported: a quarter of the CPU time in which a worker starts, and none of it is of
use to a run that meets no https. Imported before aiohttp; where somebody else was first, nothing changes. Until they
are read a context trusts nobody, so whatever went wrong here could only refuse connections.
"""

from __future__ import annotations

import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class LateContext(ssl.SSLContext):
    """A context that reads the certificates when it is first used, and is an ordinary one from then on."""

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """Wrap a connection of asyncio."""
        return _read_certificates(self).wrap_bio(*args, **options)

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:
        """Wrap a socket."""
        return _read_certificates(self).wrap_socket(*args, **options)


def _read_certificates(context: ssl.SSLContext) -> ssl.SSLContext:
    context.__class__ = ssl.SSLContext
    context.load_default_certs()
    return context


def _postpone(context: ssl.SSLContext, *_: object) -> None:
    context.__class__ = LateContext


@contextmanager
def _postponed() -> Iterator[None]:
    """Make contexts late that are created inside `with`."""
    names = ("load_default_certs", "set_default_verify_paths")
    before = {name: ssl.SSLContext.__dict__.get(name) for name in names}
    for name in names:
        setattr(ssl.SSLContext, name, _postpone)
    try:
        yield
    finally:
        for name, function in before.items():
            if function is None:  # inherited
                delattr(ssl.SSLContext, name)
            else:
                setattr(ssl.SSLContext, name, function)


if "aiohttp.connector" not in sys.modules:
    with _postponed():
        import aiohttp.connector  # noqa: F401
