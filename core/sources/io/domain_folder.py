"""`domains/<id>/domain.json`: the domain as a file, which people may edit, and the folders that belong to it.

A file is written whole or not at all, and only its owner may read it. What it says is taken up by
`core.sources.io.domain_file_sync`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import FreshetError
from core.runs.io.state_file import is_file_name
from core.sources.sharepoint.crawler_config import CRAWLER_HARDCODED_CONFIG as CFG
from core.sources.source_record import DomainFileError
from core.store import folder_lock, private_files
from core.value_class import value_class

if TYPE_CHECKING:
    from core.sources.domain_schema import Domain

MOST_FILE_BYTES = 1_000_000
LOCK_SECONDS = 60.0
"""The metadata of many files take a while to be written, and hold the same lock."""
_NAME, _KEY = "vector_store_name", "vector_store_id"


def read_file(path: Path) -> bytes:
    """Return a domain.json, or so much of it that one can see that it is too large; raises OSError."""
    with path.open("rb") as file:
        return file.read(MOST_FILE_BYTES + 1)


@value_class
class DomainFile:
    domain_id: str
    path: Path
    data: bytes
    changed_ts: float

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    def parse(self) -> Domain:
        """Return the domain; raise DomainFileError, a sentence that begins with the file's path."""
        from core.sources.io.domain_file import parse_file  # here: it takes pydantic, and the timer sees no new file

        domain = parse_file(self.path, self.data)
        if domain.id != self.domain_id:
            raise DomainFileError(
                f"{self.path}: id: the folder is called {self.domain_id}, and its name is the id. Call the folder "
                f"{domain.id}, or leave the id out of the file."
            )
        return domain


class DomainFolders:
    """The folders of all domains below PERSISTENT_STORAGE_PATH. Blocks; call it in a thread."""

    def __init__(self, storage: Path) -> None:
        self._domains = storage / CFG.PERSISTENT_STORAGE_PATH_DOMAINS_SUBFOLDER
        self._crawler = storage / CFG.PERSISTENT_STORAGE_PATH_CRAWLER_SUBFOLDER

    def path(self, domain_id: str) -> Path:
        """Return where the file of a domain is; raise ValueError if its id cannot be a folder's name."""
        if not is_file_name(domain_id):
            raise ValueError(f"{domain_id!r} cannot be the name of a folder")
        return self._domains / domain_id / CFG.DOMAIN_JSON

    def stamps(self) -> dict[str, tuple[int, int]]:
        """Return the domains that have a file, with its time and size: another stamp, another file."""
        found: dict[str, tuple[int, int]] = {}
        with contextlib.suppress(OSError):
            for folder in sorted(self._domains.iterdir()):
                with contextlib.suppress(OSError):
                    status = (folder / CFG.DOMAIN_JSON).stat()
                    found[folder.name] = (status.st_mtime_ns, status.st_size)
        return found

    def read(self, domain_id: str) -> DomainFile | None:
        """Return the file of a domain, None without one; raise DomainFileError if it cannot be read."""
        if not is_file_name(domain_id):
            return None
        path = self.path(domain_id)
        try:
            return DomainFile(domain_id, path, read_file(path), path.stat().st_mtime)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise DomainFileError(f"{path}: cannot be read ({error.strerror}).") from None

    def write(self, domain: Domain) -> str:
        """Write the file of a domain, unless it says the same already; return its digest. Raises OSError."""
        with self._locked(domain.id) as path:
            known = self.read(domain.id)
            with contextlib.suppress(DomainFileError):  # what is there is replaced
                if known and known.parse() == domain:
                    return known.digest
            return _write(path, written(domain))

    def set_vector_store_id(self, domain: Domain) -> tuple[str, str]:
        """Write the id of its vector store into the file of a domain, nothing else.

        Returns the digests of the file before and after. Raises OSError, and DomainFileError if someone has spoilt the
        file meanwhile.
        """
        with self._locked(domain.id) as path:
            known = self.read(domain.id)
            if known is None:
                return "", _write(path, written(domain))
            known.parse()
            return known.digest, _write(path, _with_store_id(json.loads(known.data), domain.vector_store_id))

    def count_files(self, domain_id: str) -> int:
        """Return how many files `forget` and `remove_copy` would remove."""
        if not is_file_name(domain_id):
            return 0
        own = sum(one.is_file() for one in self._own_files(domain_id))
        return own + sum(len(names) for _, _, names in os.walk(self._crawler / domain_id))

    def forget(self, domain_id: str) -> None:
        """Remove the files of a domain, and its folder unless a person has put something else there."""
        try:
            for path in self._own_files(domain_id):
                path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self.path(domain_id).parent.rmdir()
        except OSError as error:
            raise _cannot_remove(self.path(domain_id).parent, error) from None

    def remove_copy(self, domain_id: str) -> None:
        """Remove the local copy of what the domain's sources have."""
        try:
            shutil.rmtree(self._crawler / domain_id)
        except FileNotFoundError:
            return
        except OSError as error:
            raise _cannot_remove(self._crawler / domain_id, error) from None

    def _own_files(self, domain_id: str) -> list[Path]:
        path = self.path(domain_id)
        names = (CFG.FILES_METADATA_JSON, "*.new", ".vector_store.*")
        return [path, *(found for name in names for found in path.parent.glob(name))]

    @contextlib.contextmanager
    def _locked(self, domain_id: str) -> Iterator[Path]:
        """Hold the folder of a domain, and make it if it is not there."""
        path = self.path(domain_id)
        for folder in (self._domains.parent, self._domains, path.parent):
            folder.mkdir(parents=True, exist_ok=True, mode=private_files.FOLDER_MODE)
        with folder_lock.held(path.parent, LOCK_SECONDS):
            yield path


def written(domain: Domain) -> dict[str, object]:
    """Return a domain as a file has it: what was said of it, without the id, which is the name of the folder."""
    return domain.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"id"})


def _with_store_id(fields: dict[str, object], store_id: str) -> dict[str, object]:
    """Return the same keys in the same order; a new one goes after the name of the store, or last."""
    if _KEY in fields or _NAME not in fields:
        return {**fields, _KEY: store_id}
    names = list(fields)
    names.insert(names.index(_NAME) + 1, _KEY)
    return {name: fields.get(name, store_id) for name in names}


def _write(path: Path, fields: dict[str, object]) -> str:
    data = f"{json.dumps(fields, indent=2, ensure_ascii=False)}\n".encode()
    private_files.remove_left(path)
    private_files.write_bytes(path, data, is_durable=True)
    return hashlib.sha256(data).hexdigest()


def _cannot_remove(path: Path, error: OSError) -> FreshetError:
    return FreshetError(f"{path} cannot be removed ({error.strerror}). Remove it by hand, and run this again.")
