"""Decide which folders and files may be read: those below `FOLDER_ROOTS`, and those that a person's command named.

Otherwise anyone who can write to Redis could make us read any file of our user. So the command that adds a folder
signs its record with a key that only this user can read; a record without a good signature opens nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from dataclasses import replace
from pathlib import Path

from core.errors import FreshetError
from core.settings import Settings
from core.sources.source_record import SourceRecord

KEY_FILE = "folder.key"
_KEY_BYTES = 32
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class _KeyError(FreshetError):
    """The key cannot be used; the message says what to do."""


# ── signing ──


def sign_source(settings: Settings, record: SourceRecord) -> SourceRecord:
    """Return the record with a signature, for a source that a person's own command adds; any change needs another."""
    return replace(record, signature=_signature(_key(settings, create=True), _signed_text(record)))


def sign_file(settings: Settings, address: str) -> str:
    """Return the signature of a single file that a person's own command registers."""
    return _signature(_key(settings, create=True), f"file {address}")


# ── checking ──


def folder_refusal(settings: Settings, record: SourceRecord, path: str) -> str:
    """Return why the folder of this record may not be read; empty if it may."""
    again = f"python -m scripts.domain add, for {record.domain} once more"
    return _refusal(settings, path, _signed_text(record), record.signature, again)


def file_refusal(settings: Settings, address: str, signature: str) -> str:
    """Return why a single file may not be read; empty if it may."""
    return _refusal(settings, address, f"file {address}", signature, "the command that registered it once more")


def _refusal(settings: Settings, path: str, signed_text: str, signature: str, again: str) -> str:
    try:
        real = Path(path).resolve()  # where it really is: a symlink below a root may lead anywhere
        if any(real.is_relative_to(Path(root).expanduser().resolve()) for root in settings.folder_roots):
            return ""
    except (OSError, RuntimeError, ValueError):  # a symlink loop, a NUL
        pass
    try:
        key = _key(settings) if signature else b""
    except _KeyError as error:
        return str(error)
    if key and hmac.compare_digest(_signature(key, signed_text), signature):
        return ""
    return (
        f"{path} may not be read: it is not below FOLDER_ROOTS, and its record was not signed by a command of this"
        f" user. If it is yours, run {again}, or set FOLDER_ROOTS"
    )


def _signed_text(record: SourceRecord) -> str:
    return replace(record, signature="").to_json()


def _signature(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


# ── the key ──


def _key(settings: Settings, *, create: bool = False) -> bytes:
    path = settings.persistent_storage_path / KEY_FILE
    try:
        if create:
            _create(path)
        return _read(path)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise _KeyError(f"{path} cannot be used: {error.strerror}. It signs what folders may be read.") from error


def _create(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.exists():
        return
    made = path.with_name(f".{KEY_FILE}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(made, _CREATE, 0o600), "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
        os.link(made, path)
    except FileExistsError:
        return  # another process was quicker
    finally:
        made.unlink(missing_ok=True)


def _read(path: Path) -> bytes:
    with os.fdopen(os.open(path, _READ), "rb") as file:
        status = os.fstat(file.fileno())
        if stat.S_IMODE(status.st_mode) & 0o077 or status.st_uid != os.geteuid():
            raise _KeyError(f"{path} is open to other users; remove it and add the folders once more.")
        key = file.read(_KEY_BYTES + 1)
    if len(key) != _KEY_BYTES:
        raise _KeyError(f"{path} is damaged; remove it and add the folders once more.")
    return key
