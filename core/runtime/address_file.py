"""The address of a bundled server while it runs: in a file of the data folder, for every process that uses it."""

from __future__ import annotations

from core.settings import Settings


class AddressFile:
    """The file of one server."""

    def __init__(self, name: str) -> None:
        self.name = name

    def write(self, settings: Settings, url: str) -> None:
        """Write the address."""
        (settings.persistent_storage_path / self.name).write_text(url + "\n", encoding="utf-8")

    def read(self, settings: Settings) -> str:
        """Return the address; empty when there is none."""
        path = settings.persistent_storage_path / self.name
        return path.read_text(encoding="utf-8").strip() if path.is_file() else ""

    def remove(self, settings: Settings) -> None:
        """Remove the address: the server has stopped."""
        (settings.persistent_storage_path / self.name).unlink(missing_ok=True)
