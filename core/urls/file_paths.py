"""Give a file one identity for all the ways to write its path.

Looks at text, never at a disk: `..` is resolved by the letter, symbolic links are left to the caller. Nothing of a SAS
ever leaves this file, not even in an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal
from urllib.parse import unquote, unquote_to_bytes

from core.urls.normalise import display_url, normalise_url
from core.value_class import value_class

Kind = Literal["file", "blob", "share"]

# https://learn.microsoft.com/azure/storage/common/storage-powershell-independent-clouds#storage-endpoint
_BLOB_HOST = re.compile(
    r"[a-z0-9-]+\.blob\.core\.(windows\.net|chinacloudapi\.cn|usgovcloudapi\.net|cloudapi\.de)", re.ASCII
)
_DRIVE = re.compile(r"[A-Za-z]:", re.ASCII)
_WEB = re.compile(r"https?:", re.IGNORECASE)
_LONG_PREFIX = re.compile(r"\A//\?/(UNC/)?", re.IGNORECASE)
_BLOB_SLASHES = re.compile(r"(?:[/\\]|%2F)+", re.IGNORECASE)
_NUL = "a path with a NUL character names no file"
_ENCODED_SLASH = re.compile(r"%2F|%5C", re.IGNORECASE)


@value_class
class FileIdentity:
    """A file's names: one to compare, one to open, one to show."""

    kind: Kind
    """Its PartitionKey in the registry."""
    normalised: str
    """Equal for equal files: `/a/b.md`, `c:/a/b.md`, `//server/share/b.md`, `https://….blob.core.windows.net/c/b.md`."""
    address: str
    display: str


def file_identity(source: str) -> FileIdentity:
    """Return the file that an absolute path, a file: URI or a blob's URL names. Raises ValueError, a sentence."""
    if "\0" in source:
        raise ValueError(_NUL)
    if _WEB.match(source.strip()):
        return _blob(source.strip())
    path = _path_of_uri(source) if source[:5].lower() == "file:" else source
    if _DRIVE.match(path):
        return _drive(path.replace("\\", "/"))
    if path.startswith("\\\\"):
        return _long_or_share(path.replace("\\", "/"))
    if path.startswith("//") and not path.startswith("///"):
        return _long_or_share(path)
    if path.startswith("/"):
        absolute = "/" + "/".join(_resolved(path.split("/")))
        return FileIdentity("file", absolute, absolute, absolute)
    raise ValueError(f"{path[:200]!r} is not an absolute path")


def _drive(path: str) -> FileIdentity:
    if path[2:3] != "/":
        raise ValueError(f"{path[:200]!r} is not an absolute path; write the drive as C:/")
    names = _resolved(path[3:].split("/"))
    _refuse_streams(names)
    shown = f"{path[0].upper()}:/" + "/".join(names)
    return FileIdentity("file", shown.lower(), shown, shown)


def _long_or_share(path: str) -> FileIdentity:
    r"""`//server/share/x`, or Windows' long forms `\\?\C:\x` and `\\?\UNC\server\share\x`."""
    long = _LONG_PREFIX.match(path)
    if long and not long[1]:
        return _drive(path[long.end() :])
    server, _, rest = (path[long.end() :] if long else path[2:]).partition("/")
    share, *names = [name for name in rest.split("/") if name] or [""]
    if server in ("", ".", "..", "?") or share in ("", ".", ".."):
        raise ValueError(f"{path[:200]!r} names no file on a share; write //server/share/file")
    names = _resolved(names)
    _refuse_streams([server, share, *names])
    shown = "//" + "/".join([server.lower(), share, *names])
    return FileIdentity("share", shown.lower(), shown, shown)


def _resolved(names: Iterable[str]) -> list[str]:
    """Resolve empty names, `.` and `..`; above the root is the root."""
    kept: list[str] = []
    for name in names:
        if name == "..":
            del kept[-1:]
        elif name not in ("", "."):
            kept.append(name)
    return kept


def _refuse_streams(names: Iterable[str]) -> None:
    """`notes.txt:hidden` is a second content inside notes.txt (NTFS), and no file of its own."""
    if any(":" in name for name in names):
        raise ValueError("a Windows path has a colon after its drive only")


def _path_of_uri(uri: str) -> str:
    """Return the path that a file: URI stands for (RFC 8089), with the bytes it encodes."""
    text = re.split(r"[?#]", uri[5:], maxsplit=1)[0]
    host, path = "", text
    if text.startswith("//"):
        host, slash, path = text[2:].partition("/")
        path = slash + path
    if "@" in host:
        raise ValueError("a file URI with a user name or password is not taken")
    is_share = host.lower() not in ("", "localhost")
    is_drive = bool(_DRIVE.match(path.lstrip("/")))
    if re.search(r"%2F", path, re.IGNORECASE) or ((is_share or is_drive) and _ENCODED_SLASH.search(path)):
        raise ValueError("a file URI with an encoded slash inside a name is not taken")
    decoded = unquote_to_bytes(path.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")
    if "\0" in decoded:
        raise ValueError(_NUL)
    if is_share:
        return f"//{unquote(host)}{decoded}"
    if is_drive:
        return decoded.lstrip("/")
    return "/" + decoded.lstrip("/") if decoded.startswith("/") else decoded


def _blob(url: str) -> FileIdentity:
    """Identify a blob by its own address: https, no query, so no SAS."""
    base = re.split(r"[?#]", url, maxsplit=1)[0]
    if any(ord(char) < 32 for char in base):
        raise ValueError("a blob's address with a control character is not taken")
    authority, _, path = re.sub(r"\A[^:]*:[/\\]*", "", base).partition("/")
    if "@" in authority:
        raise ValueError("a blob's address with a user name or password is not taken")
    host = authority.removesuffix(":443").removesuffix(":80").removesuffix(".").lower()
    if not _BLOB_HOST.fullmatch(host):
        raise ValueError(f"{host[:200]!r} is no Azure blob storage; a web page is a url, not a file")
    # Azure reads %2F and \ in a blob's name as /.
    path = _BLOB_SLASHES.sub("/", path).strip("/")
    if re.search(r"\?.*\bsig=", unquote(path), re.IGNORECASE | re.DOTALL):
        raise ValueError("a blob's address with an encoded SAS inside its path is not taken")
    try:
        normalised = normalise_url(f"https://{host}/{path}")
    except ValueError as error:
        raise ValueError(f"a blob's address that cannot be read: {error}") from None
    if normalised == f"https://{host}/":
        raise ValueError(f"{host!r} names an account, not a blob")
    return FileIdentity("blob", normalised, normalised, display_url(normalised))
